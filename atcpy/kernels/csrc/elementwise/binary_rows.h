/* How rows of binary are written: a loop over each plane for each op. */
#ifndef ATC_BINARY_ROWS_H
#define ATC_BINARY_ROWS_H

#include "core/pieces.h"
#include "elementwise/binary.h"

/* Runs `value`, an expression of a and b, over a plane. */
#define EACH(result, value)                                                                        \
    for (int64_t r = 0; r < plane.rows; r++) {                                                     \
        const operand *x = args->src[0], *z = args->src[1];                                        \
        x += plane.src[0] + r * plane.row_stride[0];                                               \
        z += plane.src[1] + r * plane.row_stride[1];                                               \
        result *y = (result *)args->dst[0] + plane.dst + r * deal_cols;                            \
        for (int64_t c = 0; c < plane.cols; c++) {                                                 \
            const operand a = x[c * plane.col_stride[0]], b = z[c * plane.col_stride[1]];          \
            y[c] = (result)(value);                                                                \
        }                                                                                          \
    }                                                                                              \
    break

#define BEGIN_ROW(symbol, type)                                                                    \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        typedef type operand;                                                                      \
        const struct binary_params *p = args->params;                                              \
        const struct broadcast walk = binary_walk(p);                                              \
        struct broadcast_walk at = broadcast_begin(&walk, args);                                   \
        const int64_t deal_cols = at.deal.cols;                                                    \
        struct plane plane;                                                                        \
        struct atc_meter meter = {.args = args};                                                   \
        (void)meter; /* of remainders of floats */                                                 \
        while (broadcast_next(&at, &plane)) {                                                      \
            switch ((enum binary_op)p->op) {

#define COMPARISONS                                                                                \
    case BINARY_EQUAL:                                                                             \
        EACH(uint8_t, a == b);                                                                     \
    case BINARY_LESS:                                                                              \
        EACH(uint8_t, a < b);                                                                      \
    case BINARY_GREATER:                                                                           \
        EACH(uint8_t, a > b);                                                                      \
    case BINARY_LESS_OR_EQUAL:                                                                     \
        EACH(uint8_t, a <= b);                                                                     \
    case BINARY_GREATER_OR_EQUAL:                                                                  \
        EACH(uint8_t, a >= b);

#define END_ROW                                                                                    \
    default:                                                                                       \
        return;                                                                                    \
        }                                                                                          \
        }                                                                                          \
        }

#endif
