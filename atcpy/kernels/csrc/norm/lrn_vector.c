/* lrn on vectors, for powers of 1/2, 3/4 and 1. */
#include "core/pieces.h"
#include "norm/lrn.h"
#include "simd/vector.h"

static inline void lrn_items(const struct kernel_args *args)
{
    const struct lrn_params *p = args->params;
    const vf alpha = vf_set1((float)(p->alpha / (double)p->size));
    const vf bias = vf_set1((float)p->bias);
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t c = item % p->c;
        const float *image = (const float *)args->src[0] + item / p->c * p->c * p->pixels;
        float *y = (float *)args->dst[0] + item * p->pixels;
        const int64_t taps = lrn_last(p, c) - lrn_first(p, c);
        for (int64_t i = 0; i < p->pixels && !atc_spend(&meter, taps); i += VF) {
            const int64_t lanes = min_i64(VF, p->pixels - i);
            vf squares = vf_set1(0);
            for (int64_t k = lrn_first(p, c); k < lrn_last(p, c); k++) {
                const vf x = vf_load_n(image + k * p->pixels + i, lanes, 0);
                squares = vf_fma(x, x, squares);
            }
            vf power = vf_fma(alpha, squares, bias);
            if (p->beta != 1) {
                const vf root = vf_sqrt(power);
                power = p->beta == 0.5 ? root : vf_mul(root, vf_sqrt(root));
            }
            const vf x = vf_load_n(image + c * p->pixels + i, lanes, 0);
            vf_store_n(y + i, vf_div(x, power), lanes);
        }
    }
}

void FOR_ISA(lrn_f32)(const struct kernel_args *args)
{
    lrn_items(args);
}
