/* activate_f32 on 16 floats. */
#ifndef ATC_ACTIVATION_AVX512_H
#define ATC_ACTIVATION_AVX512_H

#include "activation.h"
#include "vmath_avx512.h"

static inline __m512 activate_avx512(enum activation kind, __m512 x, float alpha, float beta)
{
    const __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1.0f);
    const __m512 a = _mm512_set1_ps(alpha), b = _mm512_set1_ps(beta);
    /* max and min return their second operand for NaN, so x stands second where NaN must pass. */
    switch (kind) {
    case ACT_RELU:
        return _mm512_max_ps(zero, x);
    case ACT_CLIP:
        return _mm512_min_ps(b, _mm512_max_ps(a, x));
    case ACT_LEAKY_RELU:
        return _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ), a, x);
    case ACT_SIGMOID:
        return sigmoid_avx512(x);
    case ACT_HARD_SIGMOID:
        return _mm512_max_ps(zero, _mm512_min_ps(one, _mm512_fmadd_ps(a, x, b)));
    case ACT_HARD_SWISH: {
        const __m512 gate = _mm512_fmadd_ps(x, _mm512_set1_ps(1.0f / 6), _mm512_set1_ps(0.5f));
        return _mm512_mul_ps(x, _mm512_max_ps(zero, _mm512_min_ps(one, gate)));
    }
    case ACT_SWISH:
        return _mm512_mul_ps(x, sigmoid_avx512(_mm512_mul_ps(a, x)));
    case ACT_TANH: {
        const __m512 two = _mm512_set1_ps(2.0f);
        return _mm512_sub_ps(_mm512_mul_ps(two, sigmoid_avx512(_mm512_mul_ps(two, x))), one);
    }
    case ACT_NONE:
        break;
    }
    return x;
}

#endif
