/* argreduce by its definition. */
#include "reduce/argreduce.h"

/* True if v comes before the best so far; a NaN comes before every number. */
#define BEATS(op, v, best, last)                                                                   \
    ((v)op(best) || ((v) != (v) && (best) == (best)) ||                                            \
     ((last) && ((v) == (best) || ((v) != (v) && (best) != (best)))))

#define SCAN(T, op)                                                                                \
    for (int64_t k = 1; k < p->n; k++)                                                             \
        for (int64_t c = 0; c < columns; c++) {                                                    \
            const T v = src[k * p->inner + c];                                                     \
            if (BEATS(op, v, best[c], p->last)) {                                                  \
                best[c] = v;                                                                       \
                dst[c] = k;                                                                        \
            }                                                                                      \
        }

/* One row of elements that lie behind each other. */
#define SCAN_ROW(T, op)                                                                            \
    for (int64_t i = 1; i < p->n; i++) {                                                           \
        if (BEATS(op, src[i], src[at], p->last))                                                   \
            at = i;                                                                                \
    }

#define DEFINE_ARGREDUCE(T, symbol)                                                                \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct argreduce_params *p = args->params;                                           \
        const int64_t chunks = ceil_div(p->inner, ARG_COLUMNS);                                    \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t outer = item / chunks, column = item % chunks * ARG_COLUMNS;             \
            const int64_t columns = min_i64(ARG_COLUMNS, p->inner - column);                       \
            const T *src = (const T *)args->src[0] + outer * p->n * p->inner + column;             \
            int64_t *dst = (int64_t *)args->dst[0] + outer * p->inner + column;                    \
            if (p->inner == 1) {                                                                   \
                int64_t at = 0;                                                                    \
                if (p->kind == ARG_MAX) {                                                          \
                    SCAN_ROW(T, >)                                                                 \
                } else {                                                                           \
                    SCAN_ROW(T, <)                                                                 \
                }                                                                                  \
                *dst = at;                                                                         \
                continue;                                                                          \
            }                                                                                      \
            T best[ARG_COLUMNS];                                                                   \
            for (int64_t c = 0; c < columns; c++) {                                                \
                best[c] = src[c];                                                                  \
                dst[c] = 0;                                                                        \
            }                                                                                      \
            if (p->kind == ARG_MAX)                                                                \
                SCAN(T, >)                                                                         \
            else                                                                                   \
                SCAN(T, <)                                                                         \
        }                                                                                          \
    }

DEFINE_ARGREDUCE(float, argreduce_f32_scalar)
DEFINE_ARGREDUCE(double, argreduce_f64_scalar)
DEFINE_ARGREDUCE(int8_t, argreduce_i8_scalar)
DEFINE_ARGREDUCE(uint8_t, argreduce_u8_scalar)
DEFINE_ARGREDUCE(int16_t, argreduce_i16_scalar)
DEFINE_ARGREDUCE(uint16_t, argreduce_u16_scalar)
DEFINE_ARGREDUCE(int32_t, argreduce_i32_scalar)
DEFINE_ARGREDUCE(uint32_t, argreduce_u32_scalar)
DEFINE_ARGREDUCE(int64_t, argreduce_i64_scalar)
DEFINE_ARGREDUCE(uint64_t, argreduce_u64_scalar)
