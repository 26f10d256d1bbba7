/* reduce by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "core/pieces.h"
#include "reduce/reduce.h"

#include <tgmath.h>

/* Calls `body` with `v`, each reduced element of a result in turn. */
#define EACH(T, meter, src, body)                                                                  \
    for (int64_t i0 = 0; i0 < p->reduced[0]; i0++)                                                 \
        for (int64_t i1 = 0; i1 < p->reduced[1]; i1++)                                             \
            for (int64_t i2 = 0; i2 < p->reduced[2]; i2++) {                                       \
                if (atc_spend(meter, p->reduced[3]))                                               \
                    return 0;                                                                      \
                struct atc_piece piece = {0};                                                      \
                while (atc_next_piece((meter)->args, &piece, p->reduced[3]))                       \
                    for (int64_t i3 = piece.begin; i3 < piece.end; i3++) {                         \
                        const T v =                                                                \
                            (src)[i0 * p->reduced_stride[0] + i1 * p->reduced_stride[1] +          \
                                  i2 * p->reduced_stride[2] + i3 * p->reduced_stride[3]];          \
                        body;                                                                      \
                    }                                                                              \
            }

/* Sums and products are taken in double; squares are rounded to T first. */
#define DEFINE_FLOATS(T, name)                                                                     \
    static T name(struct atc_meter *meter, const T *src)                                          \
    {                                                                                              \
        const struct reduce_params *p = meter->args->params;                                       \
        double acc = p->kind == REDUCE_PROD ? 1 : 0;                                               \
        T best = p->kind == REDUCE_MIN ? (T)INFINITY : -(T)INFINITY;                               \
        switch (p->kind) {                                                                         \
        case REDUCE_MAX:                                                                           \
            EACH(T, meter, src, best = v > best || v != v ? v : best)                                  \
            return best;                                                                           \
        case REDUCE_MIN:                                                                           \
            EACH(T, meter, src, best = v < best || v != v ? v : best)                                  \
            return best;                                                                           \
        case REDUCE_PROD:                                                                          \
            EACH(T, meter, src, acc *= v)                                                              \
            return (T)acc;                                                                         \
        case REDUCE_L1:                                                                            \
            EACH(T, meter, src, acc += fabs(v))                                                        \
            return (T)acc;                                                                         \
        case REDUCE_L2:                                                                            \
        case REDUCE_SUM_SQUARE:                                                                    \
            EACH(T, meter, src, const T square = v * v; acc += square)                                 \
            return p->kind == REDUCE_L2 ? sqrt((T)acc) : (T)acc;                                   \
        case REDUCE_LOG_SUM_EXP:                                                                   \
            EACH(T, meter, src, best = v > best || v != v ? v : best)                                  \
            if (best == -(T)INFINITY || best == (T)INFINITY)                                       \
                return best;                                                                       \
            EACH(T, meter, src, acc += exp((T)(v - best)))                                             \
            return (T)(log(acc) + best);                                                           \
        default:                                                                                   \
            EACH(T, meter, src, acc += v)                                                              \
            if (p->kind == REDUCE_MEAN)                                                            \
                acc /= (double)reduce_product(p->reduced);                                         \
            return p->kind == REDUCE_LOG_SUM ? log((T)acc) : (T)acc;                               \
        }                                                                                          \
    }

/* U is T without sign: sums and products wrap around. The root of a sum of squares loses its
 * fraction; squares are added in double, where they cannot overflow.
 */
#define DEFINE_INTEGERS(T, U, lowest, largest, name)                                                \
    static T name(struct atc_meter *meter, const T *src)                                          \
    {                                                                                              \
        const struct reduce_params *p = meter->args->params;                                       \
        const bool is_signed = (T)-1 < (T)1;                                                       \
        U acc = p->kind == REDUCE_PROD;                                                            \
        T best = p->kind == REDUCE_MIN ? largest : lowest;                                          \
        double squares = 0;                                                                        \
        switch (p->kind) {                                                                         \
        case REDUCE_MAX:                                                                           \
            EACH(T, meter, src, best = v > best ? v : best)                                            \
            return best;                                                                           \
        case REDUCE_MIN:                                                                           \
            EACH(T, meter, src, best = v < best ? v : best)                                            \
            return best;                                                                           \
        case REDUCE_PROD:                                                                          \
            EACH(T, meter, src, acc = (U)(acc * (U)v))                                                 \
            return (T)acc;                                                                         \
        case REDUCE_L1:                                                                            \
            EACH(T, meter, src, acc = (U)(acc + (is_signed && v < (T)1 ? (U)(0 - (U)v) : (U)v)))            \
            return (T)acc;                                                                         \
        case REDUCE_L2:                                                                            \
            EACH(T, meter, src, squares += (double)v * (double)v)                                      \
            squares = sqrt(squares);                                                               \
            return squares < (double)largest ? (T)squares : largest;                               \
        case REDUCE_SUM_SQUARE:                                                                    \
            EACH(T, meter, src, acc = (U)(acc + (U)((U)v * (U)v)))                                     \
            return (T)acc;                                                                         \
        case REDUCE_MEAN:                                                                          \
            EACH(T, meter, src, acc = (U)(acc + (U)v))                                                 \
            if (!is_signed)                                                                        \
                return (T)(acc / (uint64_t)reduce_product(p->reduced));                            \
            return (T)((int64_t)(T)acc / reduce_product(p->reduced));                              \
        default:                                                                                   \
            EACH(T, meter, src, acc = (U)(acc + (U)v))                                                 \
            return (T)acc;                                                                         \
        }                                                                                          \
    }

/* Types that are only compared. */
#define DEFINE_ORDERED(T, lowest, largest, name)                                                    \
    static T name(struct atc_meter *meter, const T *src)                                          \
    {                                                                                              \
        const struct reduce_params *p = meter->args->params;                                       \
        T best = p->kind == REDUCE_MIN ? largest : lowest;                                          \
        if (p->kind == REDUCE_MIN)                                                                 \
            EACH(T, meter, src, best = v < best ? v : best)                                            \
        else                                                                                       \
            EACH(T, meter, src, best = v > best ? v : best)                                            \
        return best;                                                                               \
    }

#define DEFINE_REDUCE(T, one, symbol)                                                              \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct reduce_params *p = args->params;                                              \
        const T *src = args->src[0];                                                               \
        T *dst = args->dst[0];                                                                     \
        struct atc_meter meter = {.args = args};                                                   \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const struct reduce_item at = reduce_item_at(p, item);                                 \
            for (int64_t c = 0; c < at.columns; c++)                                               \
                dst[at.dst + c] = one(&meter, src + at.src + c);                                        \
        }                                                                                          \
    }

DEFINE_FLOATS(float, one_f32)
DEFINE_REDUCE(float, one_f32, reduce_f32_scalar)
DEFINE_FLOATS(double, one_f64)
DEFINE_REDUCE(double, one_f64, reduce_f64_scalar)
DEFINE_INTEGERS(int32_t, uint32_t, INT32_MIN, INT32_MAX, one_i32)
DEFINE_REDUCE(int32_t, one_i32, reduce_i32_scalar)
DEFINE_INTEGERS(uint32_t, uint32_t, 0, UINT32_MAX, one_u32)
DEFINE_REDUCE(uint32_t, one_u32, reduce_u32_scalar)
DEFINE_INTEGERS(int64_t, uint64_t, INT64_MIN, INT64_MAX, one_i64)
DEFINE_REDUCE(int64_t, one_i64, reduce_i64_scalar)
DEFINE_INTEGERS(uint64_t, uint64_t, 0, UINT64_MAX, one_u64)
DEFINE_REDUCE(uint64_t, one_u64, reduce_u64_scalar)
DEFINE_ORDERED(int8_t, INT8_MIN, INT8_MAX, one_i8)
DEFINE_REDUCE(int8_t, one_i8, reduce_i8_scalar)
DEFINE_ORDERED(uint8_t, 0, UINT8_MAX, one_u8)
DEFINE_REDUCE(uint8_t, one_u8, reduce_u8_scalar)
DEFINE_ORDERED(uint8_t, 0, 1, one_bool)
DEFINE_REDUCE(uint8_t, one_bool, reduce_bool_scalar)
