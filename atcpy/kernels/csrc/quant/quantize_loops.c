/* quantize and dequantize, by loops that the compiler makes vectors of. */
#include "quant/float8.h"
#include "quant/packed.h"
#include "quant/quantize.h"

#include <math.h>

/* x / scale, rounded and saturated to [low, high] after `zero` is added. */
static inline int32_t quantized(float x, float scale, int32_t zero, int32_t low, int32_t high)
{
    const float min = (float)(low - zero), max = (float)(high - zero);
    float v = x / scale;
    v = v > min ? v : min; /* NaN too */
    v = v < max ? v : max;
    return (int32_t)rintf(v) + zero;
}

#define DEFINE_QUANTIZE(name, type, low, high)                                                     \
    static void to_##name(const struct quant_run *run)                                             \
    {                                                                                              \
        const float *restrict x = run->x;                                                          \
        type *restrict y = run->y;                                                                 \
        const type *zero = run->zero;                                                              \
        const float scale = *run->scale, *scales = run->scale;                                     \
        const int64_t n = run->n; /* else y, of bytes, might be taken for it */                    \
        const int32_t z = zero == NULL ? 0 : *zero;                                                \
        if (!run->each)                                                                            \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (type)quantized(x[i], scale, z, low, high);                                 \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (type)quantized(x[i], scales[i], zero == NULL ? 0 : zero[i], low,           \
                                       high);                                                      \
    }
DEFINE_QUANTIZE(u8, uint8_t, 0, UINT8_MAX)
DEFINE_QUANTIZE(i8, int8_t, INT8_MIN, INT8_MAX)
DEFINE_QUANTIZE(u16, uint16_t, 0, UINT16_MAX)
DEFINE_QUANTIZE(i16, int16_t, INT16_MIN, INT16_MAX)
DEFINE_QUANTIZE(u4_bytes, uint8_t, 0, 15)
DEFINE_QUANTIZE(i4_bytes, int8_t, -8, 7)
DEFINE_QUANTIZE(u2_bytes, uint8_t, 0, 3)
DEFINE_QUANTIZE(i2_bytes, int8_t, -2, 1)

#define DEFINE_DEQUANTIZE(name, type)                                                              \
    static void from_##name(const struct quant_run *run)                                           \
    {                                                                                              \
        const type *restrict x = run->x;                                                           \
        float *restrict y = run->y;                                                                \
        const type *zero = run->zero;                                                              \
        const float scale = *run->scale, *scales = run->scale;                                     \
        const int64_t n = run->n; /* else y, of bytes, might be taken for it */                    \
        const uint32_t z = zero == NULL ? 0 : (uint32_t)*zero;                                     \
        if (!run->each)                                                                            \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (float)(int32_t)((uint32_t)x[i] - z) * scale;                               \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (float)(int32_t)((uint32_t)x[i] -                                           \
                                        (zero == NULL ? 0 : (uint32_t)zero[i])) *                  \
                       scales[i];                                                                  \
    }
DEFINE_DEQUANTIZE(u8, uint8_t)
DEFINE_DEQUANTIZE(i8, int8_t)
DEFINE_DEQUANTIZE(u16, uint16_t)
DEFINE_DEQUANTIZE(i16, int16_t)
DEFINE_DEQUANTIZE(i32, int32_t)

#define DEFINE_DEQUANTIZE_FLOAT8(name)                                                             \
    static void from_##name(const struct quant_run *run)                                           \
    {                                                                                              \
        const uint8_t *restrict x = run->x;                                                        \
        float *restrict y = run->y;                                                                \
        const uint8_t *zero = run->zero;                                                           \
        for (int64_t i = 0; i < run->n; i++) {                                                     \
            const int64_t at = run->each ? i : 0;                                                  \
            const float z = zero == NULL ? 0 : f32_of_##name(zero[at]);                            \
            y[i] = (f32_of_##name(x[i]) - z) * run->scale[at];                                     \
        }                                                                                          \
    }
DEFINE_DEQUANTIZE_FLOAT8(e4m3fn)
DEFINE_DEQUANTIZE_FLOAT8(e4m3fnuz)
DEFINE_DEQUANTIZE_FLOAT8(e5m2)
DEFINE_DEQUANTIZE_FLOAT8(e5m2fnuz)

/* A run of packed elements in pieces, where those of less than a byte have one each. */
static inline void run_packed(const struct quant_run *run, bool from_float, int bits,
                              bool is_signed, quant_fn whole)
{
    uint8_t bytes[PACKED_CHUNK], zeros[PACKED_CHUNK];
    for (int64_t i = 0; i < run->n; i += PACKED_CHUNK) {
        const int64_t n = min_i64(PACKED_CHUNK, run->n - i), skip = run->each ? i : 0;
        if (run->zero != NULL && (run->each || i == 0))
            unpack_elements(run->zero, run->zero_at + skip, run->each ? n : 1, bits, is_signed,
                            zeros);
        if (!from_float)
            unpack_elements(run->x, run->at + i, n, bits, is_signed, bytes);
        const struct quant_run piece = {
            .x = from_float ? (const void *)((const float *)run->x + i) : bytes,
            .y = from_float ? (void *)bytes : (float *)run->y + i,
            .n = n,
            .scale = run->scale + skip,
            .zero = run->zero == NULL ? NULL : zeros,
            .each = run->each,
        };
        whole(&piece);
        if (from_float)
            pack_elements(bytes, run->at + i, n, bits, run->y);
    }
}

#define DEFINE_PACKED(name, bits, is_signed, from_bytes)                                           \
    static void to_##name(const struct quant_run *run)                                             \
    {                                                                                              \
        run_packed(run, true, bits, is_signed, to_##name##_bytes);                                 \
    }                                                                                              \
    static void from_##name(const struct quant_run *run)                                           \
    {                                                                                              \
        run_packed(run, false, bits, is_signed, from_bytes);                                       \
    }
DEFINE_PACKED(u4, 4, false, from_u8)
DEFINE_PACKED(i4, 4, true, from_i8)
DEFINE_PACKED(u2, 2, false, from_u8)
DEFINE_PACKED(i2, 2, true, from_i8)

static const quant_fn quantizers[QUANT_TYPES] = {to_u8, to_i8, to_u16, to_i16,
                                                 to_u4, to_i4, to_u2,  to_i2};
static const quant_fn dequantizers[QUANT_TYPES] = {
    from_u8, from_i8,  from_u16,    from_i16,      from_u4,   from_i4,      from_u2,
    from_i2, from_i32, from_e4m3fn, from_e4m3fnuz, from_e5m2, from_e5m2fnuz};

void FOR_ISA(quantize_any)(const struct kernel_args *args)
{
    quantize_drive(args, quantizers, true);
}

void FOR_ISA(dequantize_any)(const struct kernel_args *args)
{
    quantize_drive(args, dequantizers, false);
}
