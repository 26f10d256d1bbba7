/* reduce of integers and doubles for every ISA, where one element after another joins a result: the
 * compiler makes vectors of the loops, along a row or over neighbouring columns.
 */
#include "core/pieces.h"
#include "reduce/reduce.h"
#include "simd/vector.h"

/* A row is joined in a fixed number of lanes, in double, which no compiler may choose by itself. */
enum { LANES = 16, HALF = VF / 2, ROW_PARTS = LANES / HALF };

typedef float vf_half __attribute__((vector_size(4 * HALF)));

static inline vd_half load_f64(const double *at)
{
    vd_half x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline vd_half load_f32(const float *at)
{
    vf_half x;
    memcpy(&x, at, sizeof x);
    return __builtin_convertvector(x, vd_half);
}

#define DEFINE_ROW(name, T, load, start, op)                                                       \
    static inline __attribute__((always_inline)) double name(const T *src, int64_t n)              \
    {                                                                                              \
        vd_half parts[ROW_PARTS];                                                                  \
        double lanes[HALF], rest = start;                                                          \
        int64_t i = 0;                                                                             \
        _Pragma("GCC unroll 8") for (int part = 0; part < ROW_PARTS; part++)                       \
            parts[part] = (vd_half){0} + start;                                                    \
        for (; i + LANES <= n; i += LANES)                                                         \
            _Pragma("GCC unroll 8") for (int part = 0; part < ROW_PARTS; part++)                   \
                parts[part] = parts[part] op load(src + i + part * HALF);                          \
        _Pragma("GCC unroll 3") for (int width = ROW_PARTS / 2; width > 0; width /= 2)             \
            _Pragma("GCC unroll 4") for (int part = 0; part < width; part++)                       \
                parts[part] = parts[part] op parts[part + width];                                  \
        memcpy(lanes, parts, sizeof lanes);                                                        \
        for (int width = HALF / 2; width > 0; width /= 2)                                          \
            for (int lane = 0; lane < width; lane++)                                               \
                lanes[lane] = lanes[lane] op lanes[lane + width];                                  \
        for (; i < n; i++)                                                                         \
            rest = rest op src[i];                                                                 \
        return lanes[0] op rest;                                                                   \
    }
DEFINE_ROW(sum_row, double, load_f64, 0.0, +)
DEFINE_ROW(product_row, float, load_f32, 1.0, *)

/* `row` joins a dense row of n elements at `src` into acc[0], `join` the element v into a. */
#define FOLD(T, A, start, row, join)                                                               \
    {                                                                                              \
    if (row_stride >= 0) {                                                                         \
        const int64_t n = p->reduced[3], kind = p->kind;                                           \
        T *dst = args->dst[0];                                                                     \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const T *src = (const T *)args->src[0] + item * row_stride;                            \
            A acc[1] = {start};                                                                    \
            row;                                                                                   \
            dst[item] = kind == REDUCE_MEAN ? MEAN(T, acc[0]) : (T)acc[0];                         \
        }                                                                                          \
        return;                                                                                    \
    }                                                                                              \
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
    } \
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
    const int64_t row_stride = reduce_row_stride(p, ATC_PIECE);                                    \
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
#define MEAN(T, sum) (T)((sum) / (double)terms)

void FOR_ISA(reduce_folded_f64)(const struct kernel_args *args)
{
    BEGIN
    FOLD(double, double, 0.0, acc[0] += sum_row(src, n), a + v)
}

/* Products, which would leave float's range for other inputs than the definition's. */
void FOR_ISA(reduce_folded_f32)(const struct kernel_args *args)
{
    BEGIN
    FOLD(float, double, 1.0, acc[0] *= product_row(src, n), a * (double)v)
}
