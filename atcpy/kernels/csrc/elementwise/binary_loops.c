/* binary of integers and bools for every ISA: the compiler makes vectors of the loops. */
#include "elementwise/binary_rows.h"

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
    BEGIN_ROW(FOR_ISA(symbol), type)                                                                        \
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

DEFINE_INT(binary_i8, int8_t)
DEFINE_INT(binary_i16, int16_t)
DEFINE_INT(binary_i32, int32_t)
DEFINE_INT(binary_i64, int64_t)
DEFINE_INT(binary_u8, uint8_t)
DEFINE_INT(binary_u16, uint16_t)
DEFINE_INT(binary_u32, uint32_t)
DEFINE_INT(binary_u64, uint64_t)

/* Any byte but 0 is true. */
BEGIN_ROW(FOR_ISA(binary_bool), uint8_t)
case BINARY_AND:
EACH(uint8_t, a != 0 && b != 0);
case BINARY_OR:
EACH(uint8_t, a != 0 || b != 0);
case BINARY_XOR:
EACH(uint8_t, (a != 0) != (b != 0));
case BINARY_EQUAL:
EACH(uint8_t, (a != 0) == (b != 0));
END_ROW
