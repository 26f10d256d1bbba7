/* batchnorm by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "core/pieces.h"
#include "norm/batchnorm.h"

#include <tgmath.h>

/* Mean and variance of a channel of a plane are summed in double. */
#define DEFINE(T, symbol)                                                                          \
    static void moments_##T(const struct kernel_args *args, const T *x, T *mean, T *var)           \
    {                                                                                              \
        const struct batchnorm_params *p = args->params;                                           \
        double sum = 0, squares = 0;                                                               \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->pixels);)               \
            for (int64_t i = piece.begin; i < piece.end; i++)                                      \
                sum += x[i * p->c0];                                                               \
        *mean = (T)(sum / (double)p->pixels);                                                      \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->pixels);)               \
            for (int64_t i = piece.begin; i < piece.end; i++) {                                    \
                const T d = x[i * p->c0] - *mean;                                                  \
                squares += d * d;                                                                  \
            }                                                                                      \
        *var = (T)(squares / (double)p->pixels);                                                      \
    }                                                                                              \
                                                                                                   \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct batchnorm_params *p = args->params;                                           \
        const T *scale = args->src[BN_SCALE], *bias = args->src[BN_BIAS];                          \
        const T *means = args->src[BN_MEAN], *variances = args->src[BN_VAR];                       \
        const int64_t c1 = ceil_div(p->c, p->c0);                                                  \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t first = item % c1 * p->c0;                                               \
            for (int64_t lane = 0; lane < min_i64(p->c0, p->c - first); lane++) {                  \
                const int64_t c = first + lane, at = item * p->pixels * p->c0 + lane;              \
                const T *x = (const T *)args->src[BN_X] + at;                                      \
                T *y = (T *)args->dst[0] + at;                                                     \
                T mean, var;                                                                       \
                if (means != NULL) {                                                               \
                    mean = means[c];                                                               \
                    var = variances[c];                                                            \
                } else {                                                                           \
                    moments_##T(args, x, &mean, &var);                                 \
                }                                                                                  \
                const T k = scale[c] / sqrt(var + (T)p->epsilon);                                  \
                for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->pixels);)       \
                    for (int64_t i = piece.begin; i < piece.end; i++)                              \
                        y[i * p->c0] = (x[i * p->c0] - mean) * k + bias[c];                            \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE(float, batchnorm_f32_scalar)
DEFINE(double, batchnorm_f64_scalar)
