/* lrn by its definition: the oracle of the other rows, and the path of any other power. */
#include "core/pieces.h"
#include "norm/lrn.h"

#include <tgmath.h>

#define DEFINE(T, symbol)                                                                          \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct lrn_params *p = args->params;                                                 \
        struct atc_meter meter = {.args = args};                                                   \
        const T alpha = (T)(p->alpha / (double)p->size);                                           \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t c = item % p->c;                                                         \
            const T *image = (const T *)args->src[0] + item / p->c * p->c * p->pixels;             \
            T *y = (T *)args->dst[0] + item * p->pixels;                                           \
            const int64_t taps = lrn_last(p, c) - lrn_first(p, c);                                 \
            for (int64_t i = 0; i < p->pixels && !atc_spend(&meter, taps); i++) {                  \
                T squares = 0;                                                                     \
                for (int64_t k = lrn_first(p, c); k < lrn_last(p, c); k++)                         \
                    squares += image[k * p->pixels + i] * image[k * p->pixels + i];                \
                y[i] = image[c * p->pixels + i] / pow((T)p->bias + alpha * squares, (T)p->beta);   \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE(float, lrn_f32_scalar)
DEFINE(double, lrn_f64_scalar)
