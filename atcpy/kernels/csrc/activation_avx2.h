/* activate_f32 on 8 floats. */
#ifndef ATC_ACTIVATION_AVX2_H
#define ATC_ACTIVATION_AVX2_H

#include "activation.h"
#include "vmath_avx2.h"

static inline __m256 activate_avx2(enum activation kind, __m256 x, float alpha, float beta)
{
    const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1.0f);
    const __m256 a = _mm256_set1_ps(alpha), b = _mm256_set1_ps(beta);
    /* max and min return their second operand for NaN, so x stands second where NaN must pass. */
    switch (kind) {
    case ACT_RELU:
        return _mm256_max_ps(zero, x);
    case ACT_CLIP:
        return _mm256_min_ps(b, _mm256_max_ps(a, x));
    case ACT_LEAKY_RELU:
        return _mm256_blendv_ps(x, _mm256_mul_ps(a, x), _mm256_cmp_ps(x, zero, _CMP_LT_OQ));
    case ACT_SIGMOID:
        return sigmoid_avx2(x);
    case ACT_HARD_SIGMOID:
        return _mm256_max_ps(zero, _mm256_min_ps(one, _mm256_fmadd_ps(a, x, b)));
    case ACT_HARD_SWISH: {
        const __m256 gate = _mm256_fmadd_ps(x, _mm256_set1_ps(1.0f / 6), _mm256_set1_ps(0.5f));
        return _mm256_mul_ps(x, _mm256_max_ps(zero, _mm256_min_ps(one, gate)));
    }
    case ACT_SWISH:
        return _mm256_mul_ps(x, sigmoid_avx2(_mm256_mul_ps(a, x)));
    case ACT_TANH: {
        const __m256 two = _mm256_set1_ps(2.0f);
        return _mm256_sub_ps(_mm256_mul_ps(two, sigmoid_avx2(_mm256_mul_ps(two, x))), one);
    }
    case ACT_NONE:
        break;
    }
    return x;
}

#endif
