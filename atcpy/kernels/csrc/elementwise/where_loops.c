/* where on elements of any size, by loops that the compiler makes vectors of. */
#include "elementwise/where.h"

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
    }

DEFINE_SIZE(uint8_t)
DEFINE_SIZE(uint16_t)
DEFINE_SIZE(uint32_t)
DEFINE_SIZE(uint64_t)
DEFINE_SIZE(complex128)

/* A run of n elements; operands of which `moves` is 0 are one element. */
static void where_run(int64_t item, const uint8_t *condition, const void *a, const void *b,
                      void *dst, int64_t n, const int64_t *moves)
{
    switch (item) {
    case 1:
        row_uint8_t(condition, a, b, dst, n, moves);
        break;
    case 2:
        row_uint16_t(condition, a, b, dst, n, moves);
        break;
    case 4:
        row_uint32_t(condition, a, b, dst, n, moves);
        break;
    case 8:
        row_uint64_t(condition, a, b, dst, n, moves);
        break;
    default:
        row_complex128(condition, a, b, dst, n, moves);
    }
}

static void where_items(const struct kernel_args *args)
{
    const struct where_params *params = args->params;
    const int64_t item = params->item;
    const struct broadcast walk = where_walk(params);
    struct broadcast_walk at = broadcast_begin(&walk, args);
    struct plane p;
    while (broadcast_next(&at, &p)) {
        for (int64_t r = 0; r < p.rows; r++) {
            int64_t from[3];
            for (int s = 0; s < 3; s++)
                from[s] = p.src[s] + r * p.row_stride[s];
            where_run(item, (const uint8_t *)args->src[0] + from[0],
                      (const uint8_t *)args->src[1] + from[1] * item,
                      (const uint8_t *)args->src[2] + from[2] * item,
                      (uint8_t *)args->dst[0] + (p.dst + r * at.deal.cols) * item, p.cols,
                      p.col_stride);
        }
    }
}

void FOR_ISA(where_any)(const struct kernel_args *args)
{
    where_items(args);
}

void FOR_ISA(where_run)(int64_t item, const void *condition, const void *a, const void *b,
                        void *dst, int64_t n, const int64_t *moves)
{
    where_run(item, condition, a, b, dst, n, moves);
}
