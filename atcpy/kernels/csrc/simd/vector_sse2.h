/* What vector_128.h has no operator for, on SSE2, which every x86-64 CPU has. A product and a sum
 * are rounded one by one: there is no instruction for both.
 */
#ifndef ATC_VECTOR_SSE2_H
#define ATC_VECTOR_SSE2_H

#include <emmintrin.h>

static inline vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

/* c − a · b */
static inline vf vf_fnma(vf a, vf b, vf c)
{
    return c - a * b;
}

/* x, of which the compiler no longer knows that it lies in memory as well. */
static inline vf vf_in_register(vf x)
{
    __asm__("" : "+x"(x));
    return x;
}

static inline vf vf_sqrt(vf x)
{
    return _mm_sqrt_ps(x);
}

/* max(low, x) and min(high, x) in one instruction, for bounds that are not NaN; x may be. */
static inline vf vf_at_least(vf low, vf x)
{
    return _mm_max_ps(low, x);
}

static inline vf vf_at_most(vf high, vf x)
{
    return _mm_min_ps(high, x);
}

/* The larger; NaN if either is. */
static inline vf vf_max(vf a, vf b)
{
    return vf_select(vf_is_nan(a), a, _mm_max_ps(a, b));
}

/* The smaller; NaN if either is. */
static inline vf vf_min(vf a, vf b)
{
    return vf_select(vf_is_nan(a), a, _mm_min_ps(a, b));
}

/* Halves go to even: a sum beyond 2^23 has no bits for them. From there on x is whole, or NaN. */
static inline vf vf_round(vf x)
{
    const vf whole = vf_set1(8388608.0f), size = vf_abs(x);
    const vf rounded = vf_with_sign((size + whole) - whole, x);
    return vf_select(vf_lt(size, whole), rounded, x);
}

static inline vf vf_floor(vf x)
{
    const vf y = vf_round(x);
    return vf_select(vf_lt(x, y), y - vf_set1(1.0f), y);
}

static inline vf vf_ceil(vf x)
{
    return -vf_floor(-x);
}

/* Four float16 at `at`, widened as f32_of_f16 does it; and x rounded to nearest even. */
static inline vf vf_load_f16(const uint16_t *at)
{
    const vu half = {at[0], at[1], at[2], at[3]};
    const vu rest = half & 0x7fff, bits = rest << 13;
    const vu finite = (vu)((vf)bits * 0x1p112f);
    const vu quiet = (vu)((vm)rest > 0x7c00) & 0x400000;
    const vm is_finite = (vm)rest < 0x7c00;
    const vf size = vf_select(is_finite, (vf)finite, (vf)(bits | 0x7f800000 | quiet));
    return (vf)((vu)size | (half & 0x8000) << 16);
}

static inline void vf_store_f16(uint16_t *at, vf x)
{
    for (int i = 0; i < VF; i++)
        at[i] = f16_of_f32(x[i]);
}

static inline uint32_t vm_bytes(vm mask)
{
    const __m128i words = _mm_packs_epi32((__m128i)mask, (__m128i)mask);
    return (uint32_t)_mm_cvtsi128_si32(_mm_packs_epi16(words, words)) & 0x01010101;
}

/* c + a · b on doubles, rounded after each */
static inline vd_half vd_half_fma(double a, vd_half b, vd_half c)
{
    return c + a * b;
}

/* total + x, lane by lane in double. */
static inline vd vd_add(vd total, vf x)
{
    total.low += _mm_cvtps_pd(x);
    total.high += _mm_cvtps_pd(_mm_movehl_ps(x, x));
    return total;
}

/* total / divisor, rounded to float once. */
static inline vf vd_quotient(vd total, double divisor)
{
    return _mm_movelh_ps(_mm_cvtpd_ps(total.low / divisor), _mm_cvtpd_ps(total.high / divisor));
}

#endif
