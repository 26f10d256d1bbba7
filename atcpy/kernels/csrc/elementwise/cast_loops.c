/* cast between all types, by loops that the compiler makes vectors of. */
#include "elementwise/cast.h"
#include "core/half.h"
#include "elementwise/narrow.h"

#include <string.h>

/* Truncation to 32 and to 64 bits; what does not fit becomes the least number. */
static inline int32_t i32_of_f32(float x)
{
    return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
}

static inline int32_t i32_of_f64(double x)
{
    return x > -2147483649.0 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}

static inline int32_t i32_of_i32(int32_t x)
{
    return x;
}

static inline int32_t i32_of_i64(int64_t x)
{
    return (int32_t)x;
}

static inline int32_t i32_of_u64(uint64_t x)
{
    return (int32_t)x;
}

static inline int64_t i64_of_f32(float x)
{
    return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN;
}

static inline int64_t i64_of_f64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static inline int64_t i64_of_i32(int32_t x)
{
    return x;
}

static inline int64_t i64_of_i64(int64_t x)
{
    return x;
}

static inline int64_t i64_of_u64(uint64_t x)
{
    return (int64_t)x;
}

static inline uint64_t u64_of_f64(double x)
{
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)i64_of_f64(x);
}

static inline uint64_t u64_of_f32(float x)
{
    return u64_of_f64((double)x);
}

static inline uint64_t u64_of_i32(int32_t x)
{
    return (uint64_t)x;
}

static inline uint64_t u64_of_i64(int64_t x)
{
    return (uint64_t)x;
}

static inline uint64_t u64_of_u64(uint64_t x)
{
    return x;
}

/* Each type is read as one of five, from which there is a way to every type. */
#define READ_SAME(x)  (x)
#define READ_F16(x)   f32_of_f16(x)
#define READ_BF16(x)  f32_of_bf16(x)
#define READ_SMALL(x) ((int32_t)(x))
#define READ_U32(x)   ((int64_t)(x))
#define READ_BOOL(x)  ((int32_t)((x) != 0))

#define TO_I32(x)                                                                                  \
    _Generic((x),                                                                                  \
        float: i32_of_f32,                                                                         \
        double: i32_of_f64,                                                                        \
        int32_t: i32_of_i32,                                                                       \
        int64_t: i32_of_i64,                                                                       \
        uint64_t: i32_of_u64)(x)
#define TO_I64(x)                                                                                  \
    _Generic((x),                                                                                  \
        float: i64_of_f32,                                                                         \
        double: i64_of_f64,                                                                        \
        int32_t: i64_of_i32,                                                                       \
        int64_t: i64_of_i64,                                                                       \
        uint64_t: i64_of_u64)(x)
#define TO_U64(x)                                                                                  \
    _Generic((x),                                                                                  \
        float: u64_of_f32,                                                                         \
        double: u64_of_f64,                                                                        \
        int32_t: u64_of_i32,                                                                       \
        int64_t: u64_of_i64,                                                                       \
        uint64_t: u64_of_u64)(x)
#define TO_F32(x)  ((float)(x))
#define TO_F64(x)  ((double)(x))
#define TO_F16(x)  _Generic((x), float: f16_of_f32((float)(x)), default: f16_of_f64((double)(x)))
#define TO_BF16(x) _Generic((x), float: bf16_of_f32((float)(x)), default: bf16_of_f64((double)(x)))
#define TO_I8(x)   ((int8_t)TO_I32(x))
#define TO_I16(x)  ((int16_t)TO_I32(x))
#define TO_U8(x)   ((uint8_t)TO_I32(x))
#define TO_U16(x)  ((uint16_t)TO_I32(x))
#define TO_U32(x)  ((uint32_t)TO_I64(x))
#define TO_BOOL(x) ((uint8_t)((x) != 0))

/* In the order of enum cast_type. */
#define EACH_SOURCE(M)                                                                             \
    M(f32, float, READ_SAME)                                                                       \
    M(f64, double, READ_SAME)                                                                      \
    M(f16, uint16_t, READ_F16)                                                                     \
    M(bf16, uint16_t, READ_BF16)                                                                   \
    M(i8, int8_t, READ_SMALL)                                                                      \
    M(i16, int16_t, READ_SMALL)                                                                    \
    M(i32, int32_t, READ_SAME)                                                                     \
    M(i64, int64_t, READ_SAME)                                                                     \
    M(u8, uint8_t, READ_SMALL)                                                                     \
    M(u16, uint16_t, READ_SMALL)                                                                   \
    M(u32, uint32_t, READ_U32)                                                                     \
    M(u64, uint64_t, READ_SAME)                                                                    \
    M(truth, uint8_t, READ_BOOL)

#define EACH_TARGET(M, from, from_type, READ)                                                      \
    M(from, from_type, READ, f32, float, TO_F32)                                                   \
    M(from, from_type, READ, f64, double, TO_F64)                                                  \
    M(from, from_type, READ, f16, uint16_t, TO_F16)                                                \
    M(from, from_type, READ, bf16, uint16_t, TO_BF16)                                              \
    M(from, from_type, READ, i8, int8_t, TO_I8)                                                    \
    M(from, from_type, READ, i16, int16_t, TO_I16)                                                 \
    M(from, from_type, READ, i32, int32_t, TO_I32)                                                 \
    M(from, from_type, READ, i64, int64_t, TO_I64)                                                 \
    M(from, from_type, READ, u8, uint8_t, TO_U8)                                                   \
    M(from, from_type, READ, u16, uint16_t, TO_U16)                                                \
    M(from, from_type, READ, u32, uint32_t, TO_U32)                                                \
    M(from, from_type, READ, u64, uint64_t, TO_U64)                                                \
    M(from, from_type, READ, truth, uint8_t, TO_BOOL)

#define DEFINE(from, from_type, READ, to, to_type, TO)                                             \
    static inline void from##_to_##to(const void *src, void *dst, int64_t n)                       \
    {                                                                                              \
        const from_type *restrict x = src;                                                         \
        to_type *restrict y = dst;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = TO(READ(x[i]));                                                                 \
    }
#define DEFINE_FROM(from, from_type, READ) EACH_TARGET(DEFINE, from, from_type, READ)
EACH_SOURCE(DEFINE_FROM)

#ifdef __F16C__
#include "simd/half_vector.h"

/* Instructions for float16 instead of the loops over bits. */
static void f16_to_f32_simd(const void *src, void *dst, int64_t n)
{
    f32s_of_f16(src, dst, n);
}

static void f32_to_f16_simd(const void *src, void *dst, int64_t n)
{
    f16s_of_f32(src, dst, n);
}

#define f16_to_f32 f16_to_f32_simd
#define f32_to_f16 f32_to_f16_simd
#endif

#ifndef __AVX512DQ__
/* By way of 32 bits where a block fits them: only AVX-512 has instructions for 64. */
#define DEFINE_TO_I64(from, from_type)                                                             \
    static void from##_to_i64_blocks(const void *src, void *dst, int64_t n)                        \
    {                                                                                              \
        enum { BLOCK = 32 };                                                                       \
        const from_type *restrict x = src;                                                         \
        int64_t *restrict y = dst;                                                                 \
        int64_t i = 0;                                                                             \
        for (; i + BLOCK <= n; i += BLOCK) {                                                       \
            int32_t outside = 0;                                                                   \
            for (int64_t k = i; k < i + BLOCK; k++)                                                \
                outside |= !(x[k] >= (from_type)-0x1p31 && x[k] < (from_type)0x1p31);              \
            if (outside) {                                                                         \
                for (int64_t k = i; k < i + BLOCK; k++)                                            \
                    y[k] = TO_I64(x[k]);                                                           \
            } else {                                                                               \
                for (int64_t k = i; k < i + BLOCK; k++)                                            \
                    y[k] = (int32_t)x[k];                                                          \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            y[i] = TO_I64(x[i]);                                                                   \
    }
DEFINE_TO_I64(f32, float)
DEFINE_TO_I64(f64, double)
#define f32_to_i64 f32_to_i64_blocks
#define f64_to_i64 f64_to_i64_blocks

/* A whole number of 52 bits, exactly: added to the bits of 1.5 · 2⁵², it counts that up. */
static inline double f64_of_i52(int64_t x)
{
    const double base = 0x1.8p52;
    uint64_t bits;
    double sum;
    memcpy(&bits, &base, sizeof bits);
    bits += (uint64_t)x;
    memcpy(&sum, &bits, sizeof sum);
    return sum - base;
}

/* By way of doubles where a block fits them, so that there is one rounding. */
#define DEFINE_OF_I64(to, to_type)                                                                 \
    static void i64_to_##to##_blocks(const void *src, void *dst, int64_t n)                        \
    {                                                                                              \
        enum { BLOCK = 32 };                                                                       \
        const int64_t *restrict x = src;                                                           \
        to_type *restrict y = dst;                                                                 \
        int64_t i = 0;                                                                             \
        for (; i + BLOCK <= n; i += BLOCK) {                                                       \
            uint64_t bits = 0;                                                                     \
            for (int64_t k = i; k < i + BLOCK; k++)                                                \
                bits |= (uint64_t)x[k] + ((uint64_t)1 << 51);                                      \
            if (bits >> 52) {                                                                      \
                for (int64_t k = i; k < i + BLOCK; k++)                                            \
                    y[k] = (to_type)x[k];                                                          \
            } else {                                                                               \
                for (int64_t k = i; k < i + BLOCK; k++)                                            \
                    y[k] = (to_type)f64_of_i52(x[k]);                                              \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            y[i] = (to_type)x[i];                                                                  \
    }
DEFINE_OF_I64(f32, float)
DEFINE_OF_I64(f64, double)
#define i64_to_f32 i64_to_f32_blocks
#define i64_to_f64 i64_to_f64_blocks
#endif

typedef void (*cast_fn)(const void *src, void *dst, int64_t n);
#define NAME(from, from_type, READ, to, to_type, TO) from##_to_##to,
#define NAMES_FROM(from, from_type, READ)            {EACH_TARGET(NAME, from, from_type, READ)},
static const cast_fn casts[CAST_LAST_WHOLE + 1][CAST_LAST_WHOLE + 1] = {EACH_SOURCE(NAMES_FROM)};

#define SIZE_OF(from, from_type, READ) (int64_t)sizeof(from_type),
static const int64_t item_bytes[] = {EACH_SOURCE(SIZE_OF)};

/* Where element i of a type lies. */
static inline uint8_t *element(const void *base, int64_t type, int64_t i)
{
    const int64_t bits = type <= CAST_LAST_WHOLE ? 8 * item_bytes[type] : narrow_bits(type);
    return (uint8_t *)base + i * bits / 8;
}

/* Blocks of elements, narrow ones by way of a type that holds them all. */
static void cast_narrow(const struct cast_params *p, const void *src, void *dst, int64_t begin,
                        int64_t end)
{
    enum { BLOCK = 512 };
    union {
        float f32[BLOCK];
        int8_t i8[BLOCK];
    } wide;
    double exact[BLOCK]; /* or bytes */
    float values[256];
    const int64_t from = narrow_is_float(p->from)    ? CAST_F32
                         : p->from > CAST_LAST_WHOLE ? CAST_I8
                                                     : p->from;
    const int64_t to = narrow_is_float(p->to)    ? CAST_F64
                       : p->to > CAST_LAST_WHOLE ? CAST_I8
                                                 : p->to;
    if (narrow_is_float(p->from))
        narrow_values(p->from, values);
    for (int64_t i = begin; i < end; i += BLOCK) {
        const int64_t n = min_i64(BLOCK, end - i);
        const void *at = element(src, p->from, i);
        if (narrow_is_float(p->from))
            read_narrow_floats(p->from, at, values, wide.f32, n);
        else if (p->from > CAST_LAST_WHOLE)
            read_narrow_ints(p->from, at, wide.i8, n);
        uint8_t *result = element(dst, p->to, i);
        const bool is_whole = p->to <= CAST_LAST_WHOLE;
        casts[from][to](p->from > CAST_LAST_WHOLE ? &wide : at, is_whole ? (void *)result : exact,
                        n);
        if (narrow_is_float(p->to))
            write_narrow_floats(p, exact, result, n);
        else if (!is_whole)
            pack_bits((const uint8_t *)exact, narrow_bits(p->to), result, n);
    }
}

static void cast_items(const struct kernel_args *args)
{
    const struct cast_params *p = args->params;
    const int64_t begin = args->begin * CAST_CHUNK, end = min_i64(args->end * CAST_CHUNK, p->n);
    if (p->from > CAST_LAST_WHOLE || p->to > CAST_LAST_WHOLE)
        cast_narrow(p, args->src[0], args->dst[0], begin, end);
    else
        casts[p->from][p->to](element(args->src[0], p->from, begin),
                              element(args->dst[0], p->to, begin), end - begin);
}

void FOR_ISA(cast_any)(const struct kernel_args *args)
{
    cast_items(args);
}
