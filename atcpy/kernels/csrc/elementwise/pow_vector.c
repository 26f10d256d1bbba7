/* pow of float32 by float32, by way of doubles. */
#include "core/pieces.h"
#include "elementwise/angle_vector.h"
#include "elementwise/pow.h"

#include <float.h>

enum { RUN = 256, POWER_WORK = 4 };

static inline bool is_common(double base, double exponent)
{
    return (base > 0) & (base <= (double)FLT_MAX) & (fabs(exponent) <= (double)FLT_MAX);
}

/* y may be a or b, where those are dense. */
static void run(const float *a, int64_t a_step, const float *b, int64_t b_step, float *y, int64_t n)
{
    double base[RUN], exponent[RUN];
    bool all = true;
    for (int64_t i = 0; i < n; i++)
        base[i] = (double)a[i * a_step];
    for (int64_t i = 0; i < n; i++)
        exponent[i] = (double)b[i * b_step];
    double safe[RUN], safe_exponent[RUN];
    for (int64_t i = 0; i < n; i++) {
        const bool fits = is_common(base[i], exponent[i]);
        safe[i] = fits ? base[i] : 1;
        safe_exponent[i] = fits ? exponent[i] : 1;
        all &= fits;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)power_of(safe[i], safe_exponent[i]);
    for (int64_t i = 0; i < n && !all; i++)
        if (!is_common(base[i], exponent[i]))
            y[i] = (float)pow(base[i], exponent[i]);
}

void FOR_ISA(pow_f32)(const struct kernel_args *args)
{
    const struct pow_params *p = args->params;
    const struct broadcast walk = pow_walk(p);
    struct broadcast_walk at = broadcast_begin(&walk, args);
    struct plane plane;
    struct atc_meter meter = {.args = args};
    while (broadcast_next(&at, &plane))
        for (int64_t r = 0; r < plane.rows; r++) {
            const float *a = (const float *)args->src[0] + plane.src[0] + r * plane.row_stride[0];
            const float *b = (const float *)args->src[1] + plane.src[1] + r * plane.row_stride[1];
            float *y = (float *)args->dst[0] + plane.dst + r * at.deal.cols;
            for (int64_t c = 0; c < plane.cols; c += RUN) {
                const int64_t n = min_i64(RUN, plane.cols - c);
                if (atc_spend(&meter, n * POWER_WORK))
                    return;
                run(a + c * plane.col_stride[0], plane.col_stride[0], b + c * plane.col_stride[1],
                    plane.col_stride[1], y + c, n);
            }
        }
}
