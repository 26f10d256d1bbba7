/* What vector_avx.h has no common form for, on eight floats of AVX2. */
#ifndef ATC_VECTOR_AVX2_H
#define ATC_VECTOR_AVX2_H

#include "simd/vector_avx.h"

#include <string.h>

static inline __m256i vf_first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
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

/* The floats of `at` that VF indices name. */
static inline vf vf_gather(const float *at, const int32_t *indices)
{
    return _mm256_i32gather_ps(at, _mm256_loadu_si256((const __m256i *)(const void *)indices), 4);
}

/* Eight float16 or bfloat16 at `at`, widened; and x rounded to nearest even. */
static inline vf vf_load_f16(const uint16_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}

static inline vf vf_load_bf16(const uint16_t *at)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* The first and the second of eight pairs of bfloat16, widened. */
static inline void vf_load_bf16_pairs(const uint16_t *at, vf *first, vf *second)
{
    const __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)at);
    *first = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    *second = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

static inline void vf_store_bf16(uint16_t *at, vf x)
{
    const __m256i bits = _mm256_castps_si256(x), top = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i wide = _mm256_blendv_epi8(rounded, quiet, is_nan);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    _mm_storeu_si128((__m128i *)(void *)at, _mm256_castsi256_si128(halves));
}

static inline void vf_store_f16(uint16_t *at, vf x)
{
    const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128((__m128i *)(void *)at, halves);
}

static inline void vf_store_n(float *at, vf x, int64_t n)
{
    _mm256_maskstore_ps(at, vf_first(n), x);
}

/* vf_store_n in up to three stores, for 0 < n < VF: on Zen 3, a masked one takes twelve cycles. */
static inline void vf_store_few(float *at, vf x, int64_t n)
{
    __m128 part = _mm256_castps256_ps128(x);
    if (n & 4) {
        _mm_storeu_ps(at, part);
        at += 4;
        part = _mm256_extractf128_ps(x, 1);
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)at, part);
        at += 2;
        part = _mm_movehl_ps(part, part);
    }
    if (n & 1)
        _mm_store_ss(at, part);
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

/* The largest of all lanes; NaN if one is. */
static inline float vf_largest_lane(vf x)
{
    x = vf_max(x, _mm256_permute2f128_ps(x, x, 1));
    x = vf_max(x, _mm256_permute_ps(x, 0x4e));
    return _mm256_cvtss_f32(vf_max(x, _mm256_permute_ps(x, 0xb1)));
}

/* to[i] = the sum of the lanes of x[i]. */
static inline void vf_store_sums(float *to, const vf x[4])
{
    const vf sums = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}

static inline vf vf_select(vm mask, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

#include "simd/vector_bits.h"

/* One byte a lane, 1 where the mask is set */
static inline uint64_t vm_bytes(vm mask)
{
    const __m256i lanes = _mm256_srli_epi32(_mm256_castps_si256(mask), 31);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));
}

static inline void vm_store(uint8_t *at, vm mask)
{
    const uint64_t bytes = vm_bytes(mask);
    memcpy(at, &bytes, sizeof bytes);
}

static inline void vm_store_n(uint8_t *at, vm mask, int64_t n)
{
    const uint64_t bytes = vm_bytes(mask);
    memcpy(at, &bytes, (size_t)n);
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
