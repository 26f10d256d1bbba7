/* What vector_avx.h has no common form for, on sixteen floats of AVX-512. */
#ifndef ATC_VECTOR_AVX512_H
#define ATC_VECTOR_AVX512_H

#include "simd/vector_avx.h"

typedef uint32_t vu __attribute__((vector_size(4 * VF))); /* wraps around */

static inline __mmask16 vf_first(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}

/* The first n floats; the other lanes are `rest`. */
static inline vf vf_load_n(const float *at, int64_t n, float rest)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(rest), vf_first(n), at);
}

/* Every second float from `at`; reads 2·VF − 1 floats. */
static inline vf vf_load_even(const float *at)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(_mm512_loadu_ps(at), even,
                                  _mm512_maskz_loadu_ps(0x7fff, at + VF));
}

/* The floats of `at` that VF indices name. */
static inline vf vf_gather(const float *at, const int32_t *indices)
{
    return _mm512_i32gather_ps(_mm512_loadu_si512(indices), at, 4);
}

/* Sixteen float16 or bfloat16 at `at`, widened; and x rounded to nearest even. */
static inline vf vf_load_f16(const uint16_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

static inline vf vf_load_bf16(const uint16_t *at)
{
    const __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* The first and the second of sixteen pairs of bfloat16, widened. */
static inline void vf_load_bf16_pairs(const uint16_t *at, vf *first, vf *second)
{
    const __m512i pairs = _mm512_loadu_si512(at);
    *first = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    *second = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}

static inline void vf_store_bf16(uint16_t *at, vf x)
{
    __m256i halves;
#ifdef __AVX512BF16__
    halves = (__m256i)_mm512_cvtneps_pbh(x);
#else
    const __m512i bits = _mm512_castps_si512(x), top = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    halves = _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(
        rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), top, _mm512_set1_epi32(0x40)));
#endif
    _mm256_storeu_si256((__m256i *)(void *)at, halves);
}

static inline void vf_store_f16(uint16_t *at, vf x)
{
    const __m256i halves = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256((__m256i *)(void *)at, halves);
}

static inline void vf_store_n(float *at, vf x, int64_t n)
{
    _mm512_mask_storeu_ps(at, vf_first(n), x);
}

static inline vf vf_abs(vf x)
{
    return _mm512_abs_ps(x);
}

/* The larger; NaN if either is. */
static inline vf vf_max(vf a, vf b)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

/* The smaller; NaN if either is. */
static inline vf vf_min(vf a, vf b)
{
    return _mm512_mask_mov_ps(_mm512_min_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

/* Lanes beyond the first n become `rest`. */
static inline vf vf_keep_n(vf x, int64_t n, float rest)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(rest), vf_first(n), x);
}

/* The largest of all lanes; NaN if one is. */
static inline float vf_largest_lane(vf x)
{
    return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0 ? __builtin_nanf("")
                                                       : _mm512_reduce_max_ps(x);
}

/* to[i] = the sum of the lanes of x[i]. */
static inline void vf_store_sums(float *to, const vf x[4])
{
    __m256 half[4];
    for (int i = 0; i < 4; i++)
        half[i] = _mm256_add_ps(_mm512_castps512_ps256(x[i]), _mm512_extractf32x8_ps(x[i], 1));
    const __m256 sums =
        _mm256_hadd_ps(_mm256_hadd_ps(half[0], half[1]), _mm256_hadd_ps(half[2], half[3]));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}

static inline vf vf_select(vm mask, vf yes, vf no)
{
    return _mm512_mask_blend_ps(mask, no, yes);
}

/* The entries of a table that the low four bits of each lane name. */
static inline vf vf_pick(const float table[VF], vf bits)
{
    return _mm512_permutexvar_ps(_mm512_castps_si512(bits), _mm512_loadu_ps(table));
}

/* The same for a table of two vectors' length and the low five bits */
static inline vf vf_pick_of_two(const float table[2 * VF], vf bits)
{
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), _mm512_castps_si512(bits),
                                  _mm512_loadu_ps(table + VF));
}

/* x · 2^⌊n⌋ for x in [1/2, 2] and |n| ≤ 250; results below the normal range round once */
static inline vf vf_scale(vf x, vf n)
{
    return _mm512_scalef_ps(x, n);
}

/* x = m · 2^e with m in [3/4, 3/2), for x finite and above 0; returns m */
static inline vf vf_split(vf x, vf *e)
{
    const vf m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
    const vf floor = _mm512_getexp_ps(x), one = vf_set1(1.0f);
    *e = _mm512_mask_add_ps(floor, vf_lt(m, one), floor, one);
    return m;
}

/* One byte a lane, 1 where the mask is set */
static inline void vm_store(uint8_t *at, vm mask)
{
    _mm_storeu_si128((__m128i *)(void *)at, _mm_maskz_set1_epi8(mask, 1));
}

static inline void vm_store_n(uint8_t *at, vm mask, int64_t n)
{
    _mm_mask_storeu_epi8(at, vf_first(n), _mm_maskz_set1_epi8(mask, 1));
}

/* total + x, lane by lane in double. */
static inline vd vd_add(vd total, vf x)
{
    total.low = _mm512_add_pd(total.low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    total.high = _mm512_add_pd(total.high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
    return total;
}

/* total / divisor, rounded to float once. */
static inline vf vd_quotient(vd total, double divisor)
{
    const __m512d by = _mm512_set1_pd(divisor);
    const __m256 low = _mm512_cvtpd_ps(_mm512_div_pd(total.low, by));
    const __m256 high = _mm512_cvtpd_ps(_mm512_div_pd(total.high, by));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

/* The sum of all lanes, in one fixed order. */
static inline double vd_sum(vd total)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(total.low, total.high));
}

#endif
