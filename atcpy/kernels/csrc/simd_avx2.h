/* Eight floats: the names under which the *_simd.h bodies know AVX2; see simd_avx512.h. */
#ifndef ATC_SIMD_AVX2_H
#define ATC_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define SIMD_NAME(symbol) symbol##_avx2

enum { VF = 8 };
typedef __m256 vf;

/* Two halves of 4 doubles: sums of many floats. */
typedef struct {
    __m256d low, high;
} vd;

static inline __m256i vf_first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf vf_load(const float *at)
{
    return _mm256_loadu_ps(at);
}

/* Lanes beyond the first n become `rest`. */
static inline vf vf_keep_n(vf x, int64_t n, float rest)
{
    return _mm256_blendv_ps(_mm256_set1_ps(rest), x, _mm256_castsi256_ps(vf_first(n)));
}

/* The first n floats; the other lanes are `rest`. */
static inline vf vf_load_n(const float *at, int64_t n, float rest)
{
    return vf_keep_n(_mm256_maskload_ps(at, vf_first(n)), n, rest);
}

/* Every second float from `at`; reads 2·VF − 1 floats. */
static inline vf vf_load_even(const float *at)
{
    const __m256 low = _mm256_loadu_ps(at);
    const __m256 high = _mm256_maskload_ps(at + VF, vf_first(VF - 1));
    const __m256 even = _mm256_shuffle_ps(low, high, 0x88); /* 0 2 8 10 | 4 6 12 14 */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
}

static inline void vf_store(float *at, vf x)
{
    _mm256_storeu_ps(at, x);
}

static inline void vf_store_n(float *at, vf x, int64_t n)
{
    _mm256_maskstore_ps(at, vf_first(n), x);
}

static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vf vf_sqrt(vf x)
{
    return _mm256_sqrt_ps(x);
}

static inline vf vf_abs(vf x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

/* The larger; NaN if either is. */
static inline vf vf_max(vf a, vf b)
{
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

/* The smaller; NaN if either is. */
static inline vf vf_min(vf a, vf b)
{
    return _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

static inline vd vd_zero(void)
{
    return (vd){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

/* total + x, lane by lane in double. */
static inline vd vd_add(vd total, vf x)
{
    total.low = _mm256_add_pd(total.low, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    total.high = _mm256_add_pd(total.high, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
    return total;
}

/* total / divisor, rounded to float once. */
static inline vf vd_quotient(vd total, double divisor)
{
    const __m256d by = _mm256_set1_pd(divisor);
    const __m128 low = _mm256_cvtpd_ps(_mm256_div_pd(total.low, by));
    const __m128 high = _mm256_cvtpd_ps(_mm256_div_pd(total.high, by));
    return _mm256_set_m128(high, low);
}

/* The sum of all lanes, in one fixed order. */
static inline double vd_sum(vd total)
{
    const __m256d four = _mm256_add_pd(total.low, total.high);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif
