/* Widening of weights on vectors. Included by one file an ISA, after its simd header. */
#include "half_simd.h"
#include "widen.h"

void SIMD_NAME(widen)(enum weight_type type, const uint16_t *src, float *dst, int64_t n)
{
    if (type == WEIGHTS_BF16)
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_of_bf16(src[i]);
    else
        f32s_of_f16(src, dst, n);
}
