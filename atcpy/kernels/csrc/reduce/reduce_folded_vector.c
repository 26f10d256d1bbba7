/* reduce of integers and doubles for every ISA, where one element after another joins a result: the
 * compiler makes vectors of the loops, along a row or over neighbouring columns.
 */
#include "core/pieces.h"
#include "reduce/reduce.h"

/* Doubles are added in a fixed number of lanes, which no compiler may choose by itself. */
enum { LANES = 16 };

static inline __attribute__((always_inline)) double sum_row(const double *src, int64_t n)
{
    double lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += src[i + lane];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            lanes[lane] += lanes[lane + width];
    for (; i < n; i++)
        sum += src[i];
    return lanes[0] + sum;
}

/* `row` joins a dense row of n elements at `src` into acc[0], `join` the element v into a. */
#define FOLD(T, A, start, row, join)                                                               \
    for (int64_t item = args->begin; item < args->end; item++) {                                   \
        const struct reduce_item at = reduce_item_at(p, item);                                     \
        A acc[REDUCE_COLUMNS];                                                                     \
        for (int64_t c = 0; c < at.columns; c++)                                                   \
            acc[c] = (start);                                                                      \
        for (int64_t i0 = 0; i0 < p->reduced[0]; i0++)                                             \
            for (int64_t i1 = 0; i1 < p->reduced[1]; i1++)                                         \
                for (int64_t i2 = 0; i2 < p->reduced[2]; i2++) {                                   \
                    const T *first = (const T *)args->src[0] + at.src +                            \
                                     i0 * p->reduced_stride[0] + i1 * p->reduced_stride[1] +       \
                                     i2 * p->reduced_stride[2];                                    \
                    const int64_t step = p->reduced_stride[3];                                     \
                    if (atc_spend(&meter, 1))                                                      \
                        return;                                                                    \
                    if (at.columns == 1 && step == 1) {                                            \
                        struct atc_piece piece = {0};                                              \
                        while (atc_next_piece(args, &piece, p->reduced[3])) {                      \
                            const T *src = first + piece.begin;                                    \
                            const int64_t n = piece.end - piece.begin;                             \
                            row;                                                                   \
                        }                                                                          \
                        continue;                                                                  \
                    }                                                                              \
                    for (int64_t m = 0; m < p->reduced[3] && !atc_spend(&meter, at.columns); m++)  \
                        for (int64_t c = 0; c < at.columns; c++) {                                 \
                            const T v = first[m * step + c];                                       \
                            const A a = acc[c];                                                    \
                            acc[c] = (A)(join);                                                    \
                        }                                                                          \
                }                                                                                  \
        T *dst = (T *)args->dst[0] + at.dst;                                                       \
        FINISH(T, A)                                                                               \
    }

#define FINISH(T, A)                                                                               \
    for (int64_t c = 0; c < at.columns; c++)                                                       \
        dst[c] = p->kind == REDUCE_MEAN ? MEAN(T, acc[c]) : (T)acc[c];

/* Joins a row of integers, in any order. */
#define JOIN_ROW(T, A, join)                                                                       \
    do {                                                                                           \
        A a = acc[0];                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T v = src[i];                                                                    \
            a = (A)(join);                                                                         \
        }                                                                                          \
        acc[0] = a;                                                                                \
    } while (0)

#define FOLD_INTEGERS(T, A, start, join) FOLD(T, A, start, JOIN_ROW(T, A, join), join)

#define BEGIN                                                                                      \
    const struct reduce_params *p = args->params;                                                  \
    struct atc_meter meter = {.args = args};                                                       \
    const int64_t terms = reduce_product(p->reduced);

/* Sums wrap around; means are rounded towards 0. */
#define MEAN(T, sum) (T)((int64_t)(T)(sum) / terms)

#define DEFINE_ORDERED(T, lowest, largest, name)                                                   \
    void FOR_ISA(name)(const struct kernel_args *args)                                             \
    {                                                                                              \
        BEGIN                                                                                      \
        if (p->kind == REDUCE_MAX)                                                                 \
            FOLD_INTEGERS(T, T, lowest, v > a ? v : a)                                             \
        else                                                                                       \
            FOLD_INTEGERS(T, T, largest, v < a ? v : a)                                            \
    }

#define DEFINE_INTEGERS(T, U, lowest, largest, name)                                               \
    void FOR_ISA(name)(const struct kernel_args *args)                                             \
    {                                                                                              \
        BEGIN                                                                                      \
        if (p->kind == REDUCE_MAX)                                                                 \
            FOLD_INTEGERS(T, T, lowest, v > a ? v : a)                                             \
        else if (p->kind == REDUCE_MIN)                                                            \
            FOLD_INTEGERS(T, T, largest, v < a ? v : a)                                            \
        else                                                                                       \
            FOLD_INTEGERS(T, U, 0, a + (U)v)                                                       \
    }

DEFINE_ORDERED(int8_t, INT8_MIN, INT8_MAX, reduce_folded_i8)
DEFINE_ORDERED(uint8_t, 0, UINT8_MAX, reduce_folded_u8)
DEFINE_INTEGERS(int32_t, uint32_t, INT32_MIN, INT32_MAX, reduce_folded_i32)
DEFINE_INTEGERS(int64_t, uint64_t, INT64_MIN, INT64_MAX, reduce_folded_i64)

#undef MEAN
#define MEAN(T, sum) ((sum) / (T)terms)

void FOR_ISA(reduce_folded_f64)(const struct kernel_args *args)
{
    BEGIN
    FOLD(double, double, 0.0, acc[0] += sum_row(src, n), a + v)
}
