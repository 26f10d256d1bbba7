/* The names of vector.h that AVX2 and AVX-512 have intrinsics of the same form for. */
#ifndef ATC_VECTOR_AVX_H
#define ATC_VECTOR_AVX_H

#include <immintrin.h>
#include <stdint.h>

#ifdef __AVX512F__
enum { VF = 16, VF_REGISTERS = 32 }; /* floats of a vector; vectors that stay in registers */
typedef __m512 vf;
typedef __mmask16 vm; /* a truth value per lane */
typedef __m512d vd_half;
#define VF_OP(name) _mm512_##name
#define VF_COMPARE  _mm512_cmp_ps_mask
#define VF_ROUND    _mm512_roundscale_ps
#else
enum { VF = 8, VF_REGISTERS = 16 };
typedef __m256 vf;
typedef __m256 vm; /* all bits of a lane are set, or none */
typedef __m256d vd_half;
#define VF_OP(name) _mm256_##name
#define VF_COMPARE  _mm256_cmp_ps
#define VF_ROUND    _mm256_round_ps
#endif

/* A double per lane: sums of many floats. */
typedef struct {
    vd_half low, high;
} vd;

static inline vf vf_set1(float x)
{
    return VF_OP(set1_ps)(x);
}

static inline vf vf_load(const float *at)
{
    return VF_OP(loadu_ps)(at);
}

static inline void vf_store(float *at, vf x)
{
    VF_OP(storeu_ps)(at, x);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return VF_OP(fmadd_ps)(a, b, c);
}

/* x, of which the compiler no longer knows that it lies in memory as well. */
static inline vf vf_in_register(vf x)
{
    __asm__("" : "+v"(x));
    return x;
}

static inline vf vf_sqrt(vf x)
{
    return VF_OP(sqrt_ps)(x);
}

/* max(low, x) and min(high, x) in one instruction, for bounds that are not NaN; x may be. */
static inline vf vf_at_least(vf low, vf x)
{
    return VF_OP(max_ps)(low, x);
}

static inline vf vf_at_most(vf high, vf x)
{
    return VF_OP(min_ps)(high, x);
}

/* c − a · b, rounded once */
static inline vf vf_fnma(vf a, vf b, vf c)
{
    return VF_OP(fnmadd_ps)(a, b, c);
}

/* x, which is not negative, with the sign of y */
static inline vf vf_with_sign(vf x, vf y)
{
    return VF_OP(or_ps)(x, VF_OP(and_ps)(y, VF_OP(set1_ps)(-0.0f)));
}

static inline vf vf_floor(vf x)
{
    return VF_ROUND(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

static inline vf vf_ceil(vf x)
{
    return VF_ROUND(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

/* Halves go to even. */
static inline vf vf_round(vf x)
{
    return VF_ROUND(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vm vf_lt(vf a, vf b)
{
    return VF_COMPARE(a, b, _CMP_LT_OQ);
}

static inline vm vf_le(vf a, vf b)
{
    return VF_COMPARE(a, b, _CMP_LE_OQ);
}

static inline vm vf_eq(vf a, vf b)
{
    return VF_COMPARE(a, b, _CMP_EQ_OQ);
}

static inline vm vf_is_nan(vf x)
{
    return VF_COMPARE(x, x, _CMP_UNORD_Q);
}

/* c + a · b on doubles, rounded once */
static inline vd_half vd_half_fma(double a, vd_half b, vd_half c)
{
    return VF_OP(fmadd_pd)(VF_OP(set1_pd)(a), b, c);
}

static inline vd vd_zero(void)
{
    return (vd){VF_OP(setzero_pd)(), VF_OP(setzero_pd)()};
}

#endif
