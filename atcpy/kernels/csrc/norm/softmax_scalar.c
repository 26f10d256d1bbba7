/* softmax by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "core/pieces.h"
#include "norm/softmax.h"

#include <tgmath.h>

/* One column; dst may be src. The sum is taken in double. */
#define DEFINE_SOFTMAX(T, symbol)                                                                  \
    static void column_##symbol(const struct kernel_args *args, const T *src, T *dst)              \
    {                                                                                              \
        const struct softmax_params *p = args->params;                                             \
        T largest = src[0];                                                                        \
        for (struct atc_piece piece = {1, 1}; atc_next_piece(args, &piece, p->n);)                 \
            for (int64_t i = piece.begin; i < piece.end; i++)                                      \
                if (src[i * p->inner] > largest || src[i * p->inner] != src[i * p->inner])         \
                    largest = src[i * p->inner];                                                   \
        double sum = 0;                                                                            \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)                    \
            for (int64_t i = piece.begin; i < piece.end; i++)                                      \
                sum += exp((T)(src[i * p->inner] - largest));                                      \
        const T log_sum = (T)log(sum);                                                             \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)                    \
            for (int64_t i = piece.begin; i < piece.end; i++) {                                    \
                const T shifted = src[i * p->inner] - largest;                                     \
                dst[i * p->inner] =                                                                \
                    p->kind == SOFTMAX ? (T)(exp(shifted) / (T)sum) : (T)(shifted - log_sum);      \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct softmax_params *p = args->params;                                             \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const struct softmax_item at = softmax_item_at(p, item);                               \
            for (int64_t c = 0; c < at.columns; c++)                                               \
                column_##symbol(args, (const T *)args->src[0] + at.at + c,                            \
                                (T *)args->dst[0] + at.at + c);                                    \
        }                                                                                          \
    }

DEFINE_SOFTMAX(float, softmax_f32_scalar)
DEFINE_SOFTMAX(double, softmax_f64_scalar)
