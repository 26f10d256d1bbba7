/* unary of integers and bools for every ISA: the compiler makes vectors of the loops. */
#include "elementwise/unary.h"

#include <math.h>

/* An integer nearer to zero or further by a bias; its fraction goes, and what no 64 bits hold is
 * the least number. */
static uint64_t shrunk(bool below_zero, uint64_t x, double threshold, double bias)
{
    const double value = below_zero ? (double)(int64_t)x : (double)x;
    if (!(value < -threshold || value > threshold))
        return 0;
    const double step = value < -threshold ? bias : -bias;
    if (step == trunc(step) && fabs(step) < 0x1p63)
        return x + (uint64_t)(int64_t)step;
    const double sum = value + step;
    return sum >= 0x1p63 && sum < 0x1p64
               ? (uint64_t)sum
               : (uint64_t)(fabs(sum) < 0x1p63 ? (int64_t)sum : INT64_MIN);
}

/* y may be x itself, but nothing else overlaps: no element is read after it was written. */
#define EACH(value)                                                                                \
    _Pragma("GCC ivdep") for (int64_t i = args->begin * UNARY_CHUNK; i < end; i++)                 \
    {                                                                                              \
        const operand v = x[i];                                                                    \
        y[i] = (operand)(value);                                                                   \
    }                                                                                              \
    return

/* Signed types wrap: they are computed as unsigned ones. `below_zero` and `at_least` are of the
 * type. */
#define DEFINE_INT(symbol, type)                                                                   \
    void FOR_ISA(symbol)(const struct kernel_args *args)                                           \
    {                                                                                              \
        typedef type operand;                                                                      \
        const struct unary_params *p = args->params;                                               \
        const type *x = args->src[0], low = (type)p->low, high = (type)p->high;                    \
        type *y = args->dst[0];                                                                    \
        const int64_t end = unary_end(p, args);                                                    \
        const double alpha = p->alpha, beta = p->beta;                                             \
        const bool is_signed = (type)-1 < (type)1;                                                 \
        switch ((enum unary_op)p->op) {                                                            \
        case UNARY_RELU:                                                                           \
            EACH(is_signed && v < (type)1 ? 0 : v);                                                \
        case UNARY_CLIP:                                                                           \
            EACH((v < low ? low : v) > high ? high : (v < low ? low : v));                         \
        case UNARY_ABS:                                                                            \
            EACH(is_signed && v < (type)1 ? 0 - (uint64_t)v : (uint64_t)v);                        \
        case UNARY_NEG:                                                                            \
            EACH(0 - (uint64_t)v);                                                                 \
        case UNARY_SIGN:                                                                           \
            EACH((type)(v > 0) - (type)(is_signed && v < (type)1 && v != 0));                      \
        case UNARY_SHRINK:                                                                         \
            EACH(shrunk(is_signed && v < (type)1 && v != 0, (uint64_t)v, alpha, beta));            \
        default: /* UNARY_BITWISE_NOT */                                                           \
            EACH(~(uint64_t)v);                                                                    \
        }                                                                                          \
    }

DEFINE_INT(unary_i8, int8_t)
DEFINE_INT(unary_i16, int16_t)
DEFINE_INT(unary_i32, int32_t)
DEFINE_INT(unary_i64, int64_t)
DEFINE_INT(unary_u8, uint8_t)
DEFINE_INT(unary_u16, uint16_t)
DEFINE_INT(unary_u32, uint32_t)
DEFINE_INT(unary_u64, uint64_t)

/* Any byte but 0 is true. */
void FOR_ISA(unary_bool)(const struct kernel_args *args)
{
    typedef uint8_t operand;
    const uint8_t *x = args->src[0];
    uint8_t *y = args->dst[0];
    const int64_t end = unary_end(args->params, args);
    EACH(v == 0);
}
