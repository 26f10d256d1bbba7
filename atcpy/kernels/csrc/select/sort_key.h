/* Sorting keys: elements of any type as unsigned numbers in the same order. Zeros are equal, and so
 * are NaN, which come after everything else.
 */
#ifndef ATC_SORT_KEY_H
#define ATC_SORT_KEY_H

#include "core/half.h"
#include "core/pieces.h"

static inline uint64_t key_of_i64(int64_t x)
{
    return (uint64_t)x ^ UINT64_C(1) << 63;
}

static inline uint64_t key_of_f64(double x)
{
    uint64_t bits;
    if (x != x)
        return UINT64_MAX;
    x += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* Without branches, as vectors need it. */
static inline uint64_t key_of_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t size = bits & INT32_MAX;
    const uint32_t key = (uint32_t)bits ^ ((uint32_t)(bits >> 31) | UINT32_C(1) << 31);
    const uint32_t number = size == 0 ? UINT32_C(1) << 31 : key;
    return size > 0x7f800000 ? UINT32_MAX : number;
}

#define KEYS_LOOP(type, key, step)                                                                 \
    for (int64_t i = piece.begin; i < piece.end; i++) {                                            \
        type x;                                                                                    \
        memcpy(&x, from + i * (step) * (int64_t)sizeof x, sizeof x);                               \
        keys[i] = key;                                                                             \
    }

#define KEYS_CASE(number, type, key)                                                               \
    case number:                                                                                   \
        while (atc_next_piece(args, &piece, n)) {                                                  \
            if (step == 1) {                                                                       \
                KEYS_LOOP(type, key, 1)                                                            \
            } else {                                                                               \
                KEYS_LOOP(type, key, step)                                                         \
            }                                                                                      \
        }                                                                                          \
        return;

/* The keys of n elements, `step` apart; `flip` reverses their order. */
static inline void sort_keys(const struct kernel_args *args, int64_t dtype, const void *src,
                             int64_t n, int64_t step, uint64_t flip, uint64_t *restrict keys)
{
    struct atc_piece piece = {0};
    const uint8_t *restrict from = src;
    switch (dtype) {
        KEYS_CASE(DTYPE_F32, float, key_of_f32(x) ^ flip)
        KEYS_CASE(DTYPE_F64, double, key_of_f64(x) ^ flip)
        KEYS_CASE(DTYPE_F16, uint16_t, key_of_f32(f32_of_f16(x)) ^ flip)
        KEYS_CASE(DTYPE_BF16, uint16_t, key_of_f32(f32_of_bf16(x)) ^ flip)
        KEYS_CASE(DTYPE_I8, int8_t, key_of_i64(x) ^ flip)
        KEYS_CASE(DTYPE_I16, int16_t, key_of_i64(x) ^ flip)
        KEYS_CASE(DTYPE_I32, int32_t, key_of_i64(x) ^ flip)
        KEYS_CASE(DTYPE_I64, int64_t, key_of_i64(x) ^ flip)
        KEYS_CASE(DTYPE_U16, uint16_t, (uint64_t)x ^ flip)
        KEYS_CASE(DTYPE_U32, uint32_t, (uint64_t)x ^ flip)
        KEYS_CASE(DTYPE_U64, uint64_t, x ^ flip)
        KEYS_CASE(DTYPE_U8, uint8_t, (uint64_t)x ^ flip)
    default: /* bool: any byte but 0 is true */
        while (atc_next_piece(args, &piece, n))
            for (int64_t i = piece.begin; i < piece.end; i++)
                keys[i] = (uint64_t)(from[i * step] != 0) ^ flip;
    }
}

#endif
