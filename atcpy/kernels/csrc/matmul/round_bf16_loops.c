/* Rounding to bfloat16 for CPUs that multiply floats. */
#include "matmul/round_bf16.h"

void FOR_ISA(round_bf16)(const float *src, float *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = rounded_bf16(src[i]);
}

void FOR_ISA(narrow_bf16)(const float *src, uint16_t *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = bf16_of_f32(src[i]);
}
