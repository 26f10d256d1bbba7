/* Reductions of scattered updates: y = y ∘ update, element by element, for every type that counts.
 *
 * Integers wrap around; 16-bit floats are rounded after each step; a NaN on either side stays; of
 * truth values, sum and maximum are "or", product and minimum "and".
 */
#ifndef ATC_COMBINE_H
#define ATC_COMBINE_H

#include <string.h>

#include "move/combine_kind.h"
#include "core/half.h"
#include "core/kernel.h"

typedef void (*combine_row)(uint8_t *y, const uint8_t *update, int64_t n, int64_t kind);

#define COMBINE_LOOP(type, expression)                                                             \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type a, b;                                                                                 \
        memcpy(&a, y + i * (int64_t)sizeof a, sizeof a);                                           \
        memcpy(&b, update + i * (int64_t)sizeof b, sizeof b);                                      \
        const type c = (type)(expression);                                                         \
        memcpy(y + i * (int64_t)sizeof c, &c, sizeof c);                                           \
    }

#define DEFINE_COMBINE(name, type, sum, product, largest, smallest)                                \
    static void combine_##name(uint8_t *y, const uint8_t *update, int64_t n,                       \
                               int64_t kind)                                             \
    {                                                                                              \
        if (kind == COMBINE_ADD)                                                                   \
            COMBINE_LOOP(type, sum)                                                                \
        else if (kind == COMBINE_MUL)                                                              \
            COMBINE_LOOP(type, product)                                                            \
        else if (kind == COMBINE_MAX)                                                              \
            COMBINE_LOOP(type, largest)                                                            \
        else                                                                                       \
            COMBINE_LOOP(type, smallest)                                                           \
    }

#define DEFINE_COMBINE_INT(name, type)                                                             \
    DEFINE_COMBINE(name, type, (uint64_t)a + (uint64_t)b, (uint64_t)a *(uint64_t)b, a > b ? a : b, \
                   a < b ? a : b)
#define DEFINE_COMBINE_FLOAT(name, type)                                                           \
    DEFINE_COMBINE(name, type, a + b, a *b, a > b || a != a ? a : b, a < b || a != a ? a : b)
#define DEFINE_COMBINE_HALF(name, to_f32, of_f32)                                                  \
    DEFINE_COMBINE(name, uint16_t, of_f32(to_f32(a) + to_f32(b)), of_f32(to_f32(a) * to_f32(b)),   \
                   to_f32(a) > to_f32(b) || to_f32(a) != to_f32(a) ? a : b,                        \
                   to_f32(a) < to_f32(b) || to_f32(a) != to_f32(a) ? a : b)

DEFINE_COMBINE_INT(i8, int8_t)
DEFINE_COMBINE_INT(i16, int16_t)
DEFINE_COMBINE_INT(i32, int32_t)
DEFINE_COMBINE_INT(i64, int64_t)
DEFINE_COMBINE_INT(u8, uint8_t)
DEFINE_COMBINE_INT(u16, uint16_t)
DEFINE_COMBINE_INT(u32, uint32_t)
DEFINE_COMBINE_INT(u64, uint64_t)
DEFINE_COMBINE(bool, uint8_t, a | b, a &b, a | b, a &b)
DEFINE_COMBINE_FLOAT(f32, float)
DEFINE_COMBINE_FLOAT(f64, double)
DEFINE_COMBINE_HALF(f16, f32_of_f16, f16_of_f32)
DEFINE_COMBINE_HALF(bf16, f32_of_bf16, bf16_of_f32)

/* The reduction for a type, or NULL if there is none. */
static combine_row combine_of(int64_t dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return combine_f32;
    case DTYPE_F64:
        return combine_f64;
    case DTYPE_F16:
        return combine_f16;
    case DTYPE_BF16:
        return combine_bf16;
    case DTYPE_I8:
        return combine_i8;
    case DTYPE_I16:
        return combine_i16;
    case DTYPE_I32:
        return combine_i32;
    case DTYPE_I64:
        return combine_i64;
    case DTYPE_U8:
        return combine_u8;
    case DTYPE_U16:
        return combine_u16;
    case DTYPE_U32:
        return combine_u32;
    case DTYPE_U64:
        return combine_u64;
    case DTYPE_BOOL:
        return combine_bool;
    default:
        return NULL;
    }
}

#endif
