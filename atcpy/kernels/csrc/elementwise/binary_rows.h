/* How rows of binary are written: a loop over each plane for each op. */
#ifndef ATC_BINARY_ROWS_H
#define ATC_BINARY_ROWS_H

#include "core/pieces.h"
#include "elementwise/binary.h"

enum { EACH_RUN = 256 }; /* elements between which operands are laid side by side */

/* `n` elements from `first` on of a row with a stride: where they lie, or copies in `run`, which a
 * stride of 0 fills but once.
 */
#define LAID_SIDE_BY_SIDE(run, row, stride)                                                        \
    if ((stride) != 1 && ((stride) != 0 || first == 0))                                            \
        for (int64_t c = 0; c < n; c++)                                                            \
            (run)[c] = (row)[(first + c) * (stride)];

/* Runs `value`, an expression of a and b, over a plane. */
#define EACH(result, value)                                                                        \
    for (int64_t r = 0; r < plane.rows; r++) {                                                     \
        const int64_t x_stride = plane.col_stride[0], z_stride = plane.col_stride[1];              \
        const operand *x = args->src[0], *z = args->src[1];                                        \
        x += plane.src[0] + r * plane.row_stride[0];                                               \
        z += plane.src[1] + r * plane.row_stride[1];                                               \
        result *y = (result *)args->dst[0] + plane.dst + r * deal_cols;                            \
        operand x_run[EACH_RUN], z_run[EACH_RUN];                                                  \
        for (int64_t first = 0; first < plane.cols; first += EACH_RUN) {                           \
            const int64_t n = min_i64(EACH_RUN, plane.cols - first);                               \
            LAID_SIDE_BY_SIDE(x_run, x, x_stride)                                                  \
            LAID_SIDE_BY_SIDE(z_run, z, z_stride)                                                  \
            const operand *u = x_stride == 1 ? x + first : x_run;                                  \
            const operand *v = z_stride == 1 ? z + first : z_run;                                  \
            result *to = y + first;                                                                \
            for (int64_t c = 0; c < n; c++) {                                                      \
                const operand a = u[c], b = v[c];                                                  \
                to[c] = (result)(value);                                                           \
            }                                                                                      \
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
