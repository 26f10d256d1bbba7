/* Elementary functions on 16 floats. Polynomials with their errors in ulp stand at each. */
#ifndef ATC_VMATH_AVX512_H
#define ATC_VMATH_AVX512_H

#include <immintrin.h>

/* e^x, to 1 ulp; underflows to 0 and overflows to infinity like expf, NaN passes. */
static inline __m512 exp_avx512(__m512 x)
{
    const __m512 log2e = _mm512_set1_ps(1.44269504f);
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), 0);
    /* r = x − n·ln 2 in two steps; |r| ≤ ln 2 / 2 */
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
    __m512 p = _mm512_set1_ps(1.37805939e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.37312452e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.16695364e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.66664720e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.99999851e-1f));
    p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r, _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
    /* scalef saturates as it should; it needs a finite exponent, which min/max keep. */
    const __m512 e = _mm512_scalef_ps(
        p, _mm512_max_ps(_mm512_set1_ps(-200), _mm512_min_ps(_mm512_set1_ps(200), n)));
    const __m512 low = _mm512_set1_ps(-104.0f), high = _mm512_set1_ps(88.7228394f);
    __m512 y = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, low, _CMP_LT_OQ), e, _mm512_setzero_ps());
    y = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, high, _CMP_GT_OQ), y,
                             _mm512_set1_ps(__builtin_inff()));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), y, x);
}

/* 1 / (1 + e^−x) */
static inline __m512 sigmoid_avx512(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 minus = _mm512_sub_ps(_mm512_setzero_ps(), x);
    return _mm512_div_ps(one, _mm512_add_ps(one, exp_avx512(minus)));
}

#endif
