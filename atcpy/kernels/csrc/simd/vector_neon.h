/* What vector_128.h has no operator for, on the vectors of 64-bit Arm. */
#ifndef ATC_VECTOR_NEON_H
#define ATC_VECTOR_NEON_H

#include <arm_neon.h>

static inline vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* c − a · b, rounded once */
static inline vf vf_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}

/* x, of which the compiler no longer knows that it lies in memory as well. */
static inline vf vf_in_register(vf x)
{
    __asm__("" : "+w"(x));
    return x;
}

static inline vf vf_sqrt(vf x)
{
    return vsqrtq_f32(x);
}

/* The larger; NaN if either is. */
static inline vf vf_max(vf a, vf b)
{
    return vmaxq_f32(a, b);
}

/* The smaller; NaN if either is. */
static inline vf vf_min(vf a, vf b)
{
    return vminq_f32(a, b);
}

/* max(low, x) and min(high, x), for bounds that are not NaN; x may be. */
static inline vf vf_at_least(vf low, vf x)
{
    return vf_max(low, x);
}

static inline vf vf_at_most(vf high, vf x)
{
    return vf_min(high, x);
}

static inline vf vf_floor(vf x)
{
    return vrndmq_f32(x);
}

static inline vf vf_ceil(vf x)
{
    return vrndpq_f32(x);
}

/* Halves go to even. */
static inline vf vf_round(vf x)
{
    return vrndnq_f32(x);
}

/* Four float16 at `at`, widened; and x rounded to nearest even. */
static inline vf vf_load_f16(const uint16_t *at)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
}

static inline void vf_store_f16(uint16_t *at, vf x)
{
    vst1_u16(at, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

static inline uint32_t vm_bytes(vm mask)
{
    const uint16x4_t words = vmovn_u32((uint32x4_t)mask);
    return vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0) &
           0x01010101;
}

/* c + a · b on doubles, rounded once */
static inline vd_half vd_half_fma(double a, vd_half b, vd_half c)
{
    return vfmaq_n_f64(c, b, a);
}

/* total + x, lane by lane in double. */
static inline vd vd_add(vd total, vf x)
{
    total.low += vcvt_f64_f32(vget_low_f32(x));
    total.high += vcvt_high_f64_f32(x);
    return total;
}

/* total / divisor, rounded to float once. */
static inline vf vd_quotient(vd total, double divisor)
{
    return vcvt_high_f32_f64(vcvt_f32_f64(total.low / divisor), total.high / divisor);
}

#endif
