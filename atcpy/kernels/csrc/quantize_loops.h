/* The loops of quantize and dequantize; the file of each ISA compiles them with its flags. */
#include "quantize.h"

#include <math.h>

/* x / scale, rounded and saturated to [low, high] after `zero` is added. */
static inline int32_t quantized(float x, float scale, int32_t zero, int32_t low, int32_t high)
{
    const float least = (float)(low - zero), most = (float)(high - zero);
    float v = x / scale;
    v = v > least ? v : least; /* NaN too */
    v = v < most ? v : most;
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

static const quant_fn quantizers[QUANT_TYPES] = {to_u8, to_i8, to_u16, to_i16, NULL};
static const quant_fn dequantizers[QUANT_TYPES] = {from_u8, from_i8, from_u16, from_i16, from_i32};
