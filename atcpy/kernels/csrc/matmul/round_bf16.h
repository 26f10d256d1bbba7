/* Products of bfloat16: the weights are of that type, and lie in pairs of the summed dim; the other
 * factor is rounded to it, halves to even. Products are exact, and their sums float32.
 *
 * Instructions for bfloat16 multiply and add a pair at once: the VNNI factor 2. A pair lies in the
 * room of a float, so that loops around micro-kernels count floats either way. Other CPUs multiply
 * the rounded numbers as floats, with the VNNI factor 1.
 */
#ifndef ATC_ROUND_BF16_H
#define ATC_ROUND_BF16_H

#include "core/half.h"
#include "core/kernel.h"
#include "matmul/widen.h"

/* Writes n floats rounded to bfloat16: as n floats or, with the VNNI factor 2, as pairs, the last
 * one with a zero if n is odd. dst may be src.
 */
typedef void round_bf16_fn(const float *src, float *dst, int64_t n);
round_bf16_fn round_bf16_scalar, round_bf16_avx2, round_bf16_avx512f, round_bf16_avx512bf16;

/* Writes n floats as bfloat16, n a multiple of 16. */
typedef void narrow_bf16_fn(const float *src, uint16_t *dst, int64_t n);
narrow_bf16_fn narrow_bf16_scalar, narrow_bf16_avx2, narrow_bf16_avx512f, narrow_bf16_avx512bf16;

static inline float rounded_bf16(float x)
{
    return f32_of_bf16(bf16_of_f32(x));
}

#endif
