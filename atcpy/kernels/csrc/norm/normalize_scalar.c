/* normalize by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "core/pieces.h"
#include "norm/normalize.h"

#include <math.h>

/* Sums are taken in double. */
#define DEFINE(T, symbol)                                                                          \
    /* The row that is normalized; NULL after a fault. */                                          \
    static const T *symbol##_x(const struct kernel_args *args, int64_t row)                        \
    {                                                                                              \
        const struct normalize_params *p = args->params;                                           \
        if (p->lines[0] == 0)                                                                      \
            return (const T *)args->src[NORM_X] + row * p->n;                                      \
        T *sum = (T *)args->dst[args->dst[NORM_SUM] != NULL ? NORM_SUM : NORM_Y] + row * p->n;     \
        for (int t = 0; t < NORM_TERMS; t++) {                                                     \
            const int64_t line = p->lines[t] > 0 ? norm_line(args, t, row) : 0;                    \
            if (line < 0)                                                                          \
                return NULL;                                                                       \
            const T *term = p->lines[t] > 0 ? args->src[norm_term(t)] : NULL;                      \
            struct atc_piece piece = {0};                                                          \
            while (term != NULL && atc_next_piece(args, &piece, p->n))                             \
                for (int64_t i = piece.begin; i < piece.end; i++)                                  \
                    sum[i] = t == 0 ? term[line * p->n + i] : sum[i] + term[line * p->n + i];      \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct normalize_params *p = args->params;                                           \
        const T *scale = args->src[NORM_SCALE], *bias = args->src[NORM_BIAS];                      \
        for (int64_t row = args->begin; row < args->end; row++) {                                  \
            const T *x = symbol##_x(args, row);                                                    \
            if (x == NULL)                                                                         \
                return;                                                                            \
            T *y = (T *)args->dst[0] + row * p->n;                                                 \
            double sum = 0, squares = 0;                                                           \
            struct atc_piece piece = {0};                                                          \
            while (p->kind == NORMALIZE_LAYER && atc_next_piece(args, &piece, p->n))               \
                for (int64_t i = piece.begin; i < piece.end; i++)                                  \
                    sum += x[i];                                                                   \
            const T mean = (T)(sum / (double)p->n);                                                \
            for (piece = (struct atc_piece){0}; atc_next_piece(args, &piece, p->n);)               \
                for (int64_t i = piece.begin; i < piece.end; i++) {                                \
                    const T d = x[i] - mean;                                                       \
                    squares += d * d;                                                              \
                }                                                                                  \
            const T inverse = (T)(1 / sqrt(squares / (double)p->n + p->epsilon));                  \
            const int64_t entry = row % p->period * (p->n / p->run);                               \
            for (piece = (struct atc_piece){0}; atc_next_piece(args, &piece, p->n);)               \
                for (int64_t i = piece.begin; i < piece.end; i++) {                                \
                    const int64_t at = entry + i / p->run;                                         \
                    const T k = scale != NULL ? scale[at] : 1, b = bias != NULL ? bias[at] : 0;    \
                    y[i] = (x[i] - mean) * inverse * k + b;                                        \
                }                                                                                  \
        }                                                                                          \
    }

DEFINE(float, normalize_f32_scalar)
DEFINE(double, normalize_f64_scalar)
