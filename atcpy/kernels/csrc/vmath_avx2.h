/* Elementary functions on 8 floats: vmath_avx512.h's, by the same polynomials. */
#ifndef ATC_VMATH_AVX2_H
#define ATC_VMATH_AVX2_H

#include <immintrin.h>

/* 2^n for whole n in [-126, 127] */
static inline __m256 exp2_whole_avx2(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* e^x, to 1 ulp; underflows to 0 and overflows to infinity like expf, NaN passes. */
static inline __m256 exp_avx2(__m256 x)
{
    const __m256 low = _mm256_set1_ps(-104.0f), high = _mm256_set1_ps(88.7228394f);
    /* x stands second so that NaN passes; what lies outside is replaced below. */
    const __m256 in_range = _mm256_min_ps(high, _mm256_max_ps(low, x));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(in_range, _mm256_set1_ps(1.44269504f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    /* r = x − n·ln 2 in two steps; |r| ≤ ln 2 / 2 */
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), in_range);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.37805939e-3f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.37312452e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16695364e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66664720e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.99999851e-1f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, r), r, _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
    /* n reaches −150 and 128: in two factors, each of which is a normal number. */
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    p = _mm256_mul_ps(p, exp2_whole_avx2(half));
    const __m256 e = _mm256_mul_ps(p, exp2_whole_avx2(_mm256_sub_epi32(whole, half)));
    __m256 y = _mm256_blendv_ps(e, _mm256_setzero_ps(), _mm256_cmp_ps(x, low, _CMP_LT_OQ));
    y = _mm256_blendv_ps(y, _mm256_set1_ps(__builtin_inff()), _mm256_cmp_ps(x, high, _CMP_GT_OQ));
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* 1 / (1 + e^−x) */
static inline __m256 sigmoid_avx2(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 minus = _mm256_sub_ps(_mm256_setzero_ps(), x);
    return _mm256_div_ps(one, _mm256_add_ps(one, exp_avx2(minus)));
}

#endif
