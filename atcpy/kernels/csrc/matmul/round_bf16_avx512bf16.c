/* Rounding to the pairs that instructions for bfloat16 multiply. */
#include <immintrin.h>

#include "matmul/round_bf16.h"

enum { LANES = 16 };

void round_bf16_avx512bf16(const float *src, float *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        _mm512_storeu_si512(dst + i / 2,
                            (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(src + i + LANES),
                                                         _mm512_loadu_ps(src + i)));
    if (i == n)
        return;
    const int64_t left = n - i, high = left > LANES ? left - LANES : 0;
    const __mmask16 low_lanes = (__mmask16)((1u << (left < LANES ? left : LANES)) - 1);
    const __m512 low = _mm512_maskz_loadu_ps(low_lanes, src + i);
    const __m512 next = _mm512_maskz_loadu_ps((__mmask16)((1u << high) - 1), src + i + LANES);
    _mm512_mask_storeu_epi32(dst + i / 2, (__mmask16)((1u << ((left + 1) / 2)) - 1),
                             (__m512i)_mm512_cvtne2ps_pbh(next, low));
}

void narrow_bf16_avx512bf16(const float *src, uint16_t *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES)
        _mm256_storeu_si256((__m256i *)(void *)(dst + i),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(src + i)));
}
