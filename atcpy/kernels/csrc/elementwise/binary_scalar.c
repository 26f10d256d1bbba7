/* binary of floats by its definition: the oracle of the other rows, and the path of any other CPU.
 */
#include "elementwise/binary_rows.h"

#include <math.h>

/* The work of a remainder of floats as a meter counts it: up to some microseconds, where a number
 * is divided by one that is far smaller.
 */
enum { REMAINDER_WORK = 64 };

/* The remainder of floats whose quotient is below 2^27: it is never rounded to a whole number,
 * whose product with b is exact in double, and so is what is left of a. Others go bit by bit.
 */
static float remainder_float(float a, float b)
{
    const double quotient = (double)a / (double)b;
    if (!(fabs(quotient) < 0x1p27) || isinf(b))
        return fmodf(a, b);
    const double whole = (double)(int32_t)quotient;
    return copysignf((float)((double)a - whole * (double)b), a);
}

static double remainder_double(double a, double b)
{
    return fmod(a, b);
}

#define DEFINE_FLOAT_OPS(type, f)                                                                  \
    static type fmod_##type(type a, type b)                                                        \
    {                                                                                              \
        return remainder_##type(a, b);                                                                      \
    }                                                                                              \
                                                                                                   \
    static type mod_##type(type a, type b)                                                         \
    {                                                                                              \
        const type rest = remainder_##type(a, b);                                                           \
        if (rest == 0)                                                                             \
            return copysign##f(rest, b);                                                           \
        return (rest < 0) != (b < 0) ? rest + b : rest;                                            \
    }                                                                                              \
                                                                                                   \
    static type max_##type(type a, type b)                                                         \
    {                                                                                              \
        return a > b || isnan(a) ? a : b;                                                          \
    }                                                                                              \
                                                                                                   \
    static type min_##type(type a, type b)                                                         \
    {                                                                                              \
        return a < b || isnan(a) ? a : b;                                                          \
    }

DEFINE_FLOAT_OPS(float, f)
DEFINE_FLOAT_OPS(double, )

#define DEFINE_FLOAT(symbol, type)                                                                 \
    BEGIN_ROW(symbol, type)                                                                        \
    case BINARY_ADD:                                                                               \
        EACH(type, a + b);                                                                         \
    case BINARY_SUB:                                                                               \
        EACH(type, a - b);                                                                         \
    case BINARY_MUL:                                                                               \
        EACH(type, a *b);                                                                          \
    case BINARY_DIV:                                                                               \
        EACH(type, a / b);                                                                         \
    case BINARY_MAX:                                                                               \
        EACH(type, max_##type(a, b));                                                              \
    case BINARY_MIN:                                                                               \
        EACH(type, min_##type(a, b));                                                              \
    case BINARY_PRELU:                                                                             \
        EACH(type, a < 0 ? a * b : a);                                                             \
    case BINARY_MOD:                                                                               \
        EACH(type, atc_spend(&meter, REMAINDER_WORK) ? 0 : mod_##type(a, b));                                                              \
    case BINARY_FMOD:                                                                              \
        EACH(type, atc_spend(&meter, REMAINDER_WORK) ? 0 : fmod_##type(a, b));                                                             \
        COMPARISONS                                                                                \
        END_ROW

DEFINE_FLOAT(binary_f32_scalar, float)
DEFINE_FLOAT(binary_f64_scalar, double)
