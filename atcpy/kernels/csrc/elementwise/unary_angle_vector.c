/* unary's functions of angles, and powers of one exponent, of float32 by way of doubles. */
#include "elementwise/angle_vector.h"
#include "elementwise/unary.h"

#include <float.h>

/* y may be x itself, but nothing else overlaps. What `fits` does not admit is computed as the row
 * by definition does; few elements are like that.
 */
#define EACH(value, fits, otherwise)                                                               \
    do {                                                                                           \
        bool all = true;                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const double v = (double)src[i];                                                       \
            x[i] = v;                                                                              \
            all &= (fits);                                                                         \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            double v = x[i];                                                                       \
            v = (fits) ? v : 1;                                                                    \
            dst[i] = (float)(value);                                                               \
        }                                                                                          \
        for (int64_t i = 0; i < n && !all; i++) {                                                  \
            const double v = x[i];                                                                 \
            if (!(fits))                                                                           \
                dst[i] = (float)(otherwise);                                                       \
        }                                                                                          \
    } while (0)

/* The same of a function that admits all */
#define EACH_OF_ALL(function)                                                                      \
    for (int64_t i = 0; i < n; i++)                                                                \
        dst[i] = (float)function((double)src[i])

enum { RUN = 256 };

static void run(const struct unary_params *p, const float *src, float *dst, int64_t n)
{
    const double alpha = p->alpha;
    const bool is_finite = fabs(alpha) <= (double)FLT_MAX;
    double x[RUN];
    switch ((enum unary_op)p->op) {
    case UNARY_POW:
        EACH(power_of(v, alpha), (v > 0) & (v <= (double)FLT_MAX) & is_finite, pow(v, alpha));
        return;
    case UNARY_SIN:
        EACH(sine_of(v), fabs(v) <= MAX_TURN, sin(v));
        return;
    case UNARY_COS:
        EACH(cosine_of(v), fabs(v) <= MAX_TURN, cos(v));
        return;
    case UNARY_TAN:
        EACH(tangent_of(v), fabs(v) <= MAX_TURN, tan(v));
        return;
    case UNARY_ASIN:
        EACH_OF_ALL(arcsine_of);
        return;
    case UNARY_ACOS:
        EACH_OF_ALL(arccosine_of);
        return;
    default: /* UNARY_ATAN */
        EACH_OF_ALL(arctangent_of);
    }
}

void FOR_ISA(unary_angle_f32)(const struct kernel_args *args)
{
    const struct unary_params *p = args->params;
    const float *src = args->src[0];
    float *dst = args->dst[0];
    const int64_t end = unary_end(p, args);
    for (int64_t at = args->begin * UNARY_CHUNK; at < end; at += RUN)
        run(p, src + at, dst + at, min_i64(RUN, end - at));
}
