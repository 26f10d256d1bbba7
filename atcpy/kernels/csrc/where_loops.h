/* The loops of where; the file of each ISA compiles them with its flags. */
#include "where.h"

/* dst may be a or b, element for element, so no iteration reads what another writes. A source that
 * does not move is read into a variable: the compiler then makes one vector of it.
 */
#define ROW(a_value, b_value)                                                                      \
    {                                                                                              \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) y[i] =                                \
            c[i] != 0 ? (a_value) : (b_value);                                                     \
    }

typedef struct {
    double real, imaginary;
} complex128;

#define DEFINE_SIZE(type)                                                                          \
    static void row_##type(const uint8_t *c, const type *a, const type *b, type *y, int64_t n,     \
                           const int64_t *moves)                                                   \
    {                                                                                              \
        const type a0 = a[0], b0 = b[0];                                                           \
        if (moves[0] == 0) {                                                                       \
            const bool take_a = c[0] != 0;                                                         \
            const type *from = take_a ? a : b;                                                     \
            const int64_t step = moves[take_a ? 1 : 2];                                            \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = from[i * step];                                                             \
        } else if (moves[1] != 0 && moves[2] != 0)                                                 \
            ROW(a[i], b[i])                                                                        \
        else if (moves[1] != 0)                                                                    \
            ROW(a[i], b0)                                                                          \
        else if (moves[2] != 0)                                                                    \
            ROW(a0, b[i])                                                                          \
        else                                                                                       \
            ROW(a0, b0)                                                                            \
    }                                                                                              \
                                                                                                   \
    static void rows_##type(const struct kernel_args *args, const struct plane *p, int64_t cols)   \
    {                                                                                              \
        for (int64_t r = 0; r < p->rows; r++)                                                      \
            row_##type((const uint8_t *)args->src[0] + p->src[0] + r * p->row_stride[0],           \
                       (const type *)args->src[1] + p->src[1] + r * p->row_stride[1],              \
                       (const type *)args->src[2] + p->src[2] + r * p->row_stride[2],              \
                       (type *)args->dst[0] + p->dst + r * cols, p->cols, p->col_stride);          \
    }

DEFINE_SIZE(uint8_t)
DEFINE_SIZE(uint16_t)
DEFINE_SIZE(uint32_t)
DEFINE_SIZE(uint64_t)
DEFINE_SIZE(complex128)

static void where_items(const struct kernel_args *args)
{
    const struct where_params *params = args->params;
    const struct broadcast walk = where_walk(params);
    struct broadcast_walk at = broadcast_begin(&walk, args);
    const int64_t cols = at.deal.cols;
    struct plane plane;
    while (broadcast_next(&at, &plane)) {
        switch (params->item) {
        case 1:
            rows_uint8_t(args, &plane, cols);
            break;
        case 2:
            rows_uint16_t(args, &plane, cols);
            break;
        case 4:
            rows_uint32_t(args, &plane, cols);
            break;
        case 8:
            rows_uint64_t(args, &plane, cols);
            break;
        default:
            rows_complex128(args, &plane, cols);
        }
    }
}
