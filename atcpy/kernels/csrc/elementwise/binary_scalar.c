/* binary by its definition: the oracle of the other rows, and the path of any other CPU and type.
 */
#include "core/pieces.h"
#include "elementwise/binary.h"

#include <math.h>

/* The work of a remainder of floats as a meter counts it: up to some microseconds, where a number
 * is divided by one that is far smaller.
 */
enum { REMAINDER_WORK = 64 };

#define DEFINE_FLOAT_OPS(type, f)                                                                  \
    static type fmod_##type(type a, type b)                                                        \
    {                                                                                              \
        return fmod##f(a, b);                                                                      \
    }                                                                                              \
                                                                                                   \
    static type mod_##type(type a, type b)                                                         \
    {                                                                                              \
        const type rest = fmod##f(a, b);                                                           \
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

/* Integers wrap: they are computed as unsigned ones of 64 bits. */
#define U(x) ((uint64_t)(x))

/* The divisor, or 1 and a fault for 0. */
static inline uint64_t divisor(uint64_t b, struct atc_fault *fault)
{
    if (b == 0)
        atc_note_fault(fault, FAULT_DIVISION_BY_ZERO, 0, 0);
    return b == 0 ? 1 : b;
}

#define DEFINE_INT(symbol, type)                                                                   \
    static inline type symbol##_div(type a, type b)                                                \
    {                                                                                              \
        const bool is_minus_one = (type)-1 < (type)1 && b == (type)-1;                             \
        return is_minus_one ? (type)(0 - U(a)) : (type)(a / b);                                    \
    }                                                                                              \
                                                                                                   \
    static inline type symbol##_fmod(type a, type b)                                               \
    {                                                                                              \
        const bool is_minus_one = (type)-1 < (type)1 && b == (type)-1;                             \
        return is_minus_one ? 0 : (type)(a % b);                                                   \
    }                                                                                              \
                                                                                                   \
    static inline type symbol##_mod(type a, type b)                                                \
    {                                                                                              \
        const type rest = symbol##_fmod(a, b);                                                     \
        return rest != 0 && (rest < 1) != (b < 1) ? (type)(rest + b) : rest;                       \
    }                                                                                              \
                                                                                                   \
    static inline uint64_t symbol##_shifted(type a, type b, bool left)                                 \
    {                                                                                              \
        const bool is_signed = (type)-1 < (type)1;                                                 \
        const uint64_t sign = is_signed && a < (type)1 && a != 0 ? UINT64_MAX : 0;                 \
        if (U(b) >= 8 * sizeof(type))                                                          \
            return left ? 0 : sign;                                                                \
        return left ? U(a) << b : (U(a) ^ sign) >> b ^ sign;                                        \
    }                                                                                              \
                                                                                                   \
    BEGIN_ROW(symbol, type)                                                                        \
    case BINARY_ADD:                                                                               \
        EACH(type, U(a) + U(b));                                                                   \
    case BINARY_SUB:                                                                               \
        EACH(type, U(a) - U(b));                                                                   \
    case BINARY_MUL:                                                                               \
        EACH(type, U(a) * U(b));                                                                   \
    case BINARY_DIV:                                                                               \
        EACH(type, symbol##_div(a, (type)divisor(U(b), args->fault)));                                          \
    case BINARY_MAX:                                                                               \
        EACH(type, a > b ? a : b);                                                                 \
    case BINARY_MIN:                                                                               \
        EACH(type, a < b ? a : b);                                                                 \
    case BINARY_PRELU:                                                                             \
        EACH(type, (type)-1 < (type)1 && a < (type)1 ? U(a) * U(b) : U(a));                        \
    case BINARY_MOD:                                                                               \
        EACH(type, symbol##_mod(a, (type)divisor(U(b), args->fault)));                                          \
    case BINARY_FMOD:                                                                              \
        EACH(type, symbol##_fmod(a, (type)divisor(U(b), args->fault)));                                         \
    case BINARY_BITWISE_AND:                                                                       \
        EACH(type, a &b);                                                                          \
    case BINARY_BITWISE_OR:                                                                        \
        EACH(type, a | b);                                                                         \
    case BINARY_BITWISE_XOR:                                                                       \
        EACH(type, a ^ b);                                                                         \
    case BINARY_SHIFT_LEFT:                                                                     \
        EACH(type, symbol##_shifted(a, b, true));                                                          \
    case BINARY_SHIFT_RIGHT:                                                                     \
        EACH(type, symbol##_shifted(a, b, false));                                                          \
        COMPARISONS                                                                                \
        END_ROW

DEFINE_INT(binary_i8_scalar, int8_t)
DEFINE_INT(binary_i16_scalar, int16_t)
DEFINE_INT(binary_i32_scalar, int32_t)
DEFINE_INT(binary_i64_scalar, int64_t)
DEFINE_INT(binary_u8_scalar, uint8_t)
DEFINE_INT(binary_u16_scalar, uint16_t)
DEFINE_INT(binary_u32_scalar, uint32_t)
DEFINE_INT(binary_u64_scalar, uint64_t)

/* Any byte but 0 is true. */
BEGIN_ROW(binary_bool_scalar, uint8_t)
case BINARY_AND:
EACH(uint8_t, a != 0 && b != 0);
case BINARY_OR:
EACH(uint8_t, a != 0 || b != 0);
case BINARY_XOR:
EACH(uint8_t, (a != 0) != (b != 0));
case BINARY_EQUAL:
EACH(uint8_t, (a != 0) == (b != 0));
END_ROW
