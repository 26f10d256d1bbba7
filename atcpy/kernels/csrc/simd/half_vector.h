/* float16 and float32 by the instructions for them. Tails go by bits, with the same results. */
#ifndef ATC_HALF_VECTOR_H
#define ATC_HALF_VECTOR_H

#include "core/half.h"
#include "simd/vector.h"

static inline void f32s_of_f16(const uint16_t *src, float *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store(dst + i, vf_load_f16(src + i));
    for (; i < n; i++)
        dst[i] = f32_of_f16(src[i]);
}

static inline void f16s_of_f32(const float *src, uint16_t *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store_f16(dst + i, vf_load(src + i));
    for (; i < n; i++)
        dst[i] = f16_of_f32(src[i]);
}

#endif
