/* activate_f32 on a vector. NaN passes each. */
#ifndef ATC_ACTIVATION_VECTOR_H
#define ATC_ACTIVATION_VECTOR_H

#include "core/kernel.h"
#include "simd/activation.h"
#include "simd/math_vector.h"

/* clip(x, 0, 1) */
static inline vf vf_clip_to_unit(vf x)
{
    return vf_at_least(vf_set1(0.0f), vf_at_most(vf_set1(1.0f), x));
}

/* x · Φ(x), to 2e-7 of 1 + |x|. With t = |x|, Φ(−t) is (5.65 − t) times a polynomial in
 * u = 2t / 5.65 − 1, and 0 beyond 5.65, where it is less than 1e-8.
 */
static inline vf vf_gelu(vf x)
{
    const vf end = vf_set1(5.65f), t = vf_at_most(end, vf_abs(x));
    const vf u = vf_fma(t, vf_set1(2 / 5.65f), vf_set1(-1.0f)), u2 = u * u, u4 = u2 * u2;
    /* Each fourth term is a polynomial in u⁴: nothing waits for a chain of 15 sums. */
    vf p0 = vf_fma(vf_set1(-1.306873e-2f), u4, vf_set1(-2.2331862e-2f));
    vf p1 = vf_fma(vf_set1(4.5408793e-3f), u4, vf_set1(-2.130882e-2f));
    vf p2 = vf_fma(vf_set1(2.3544596e-3f), u4, vf_set1(2.9209716e-2f));
    vf p3 = vf_fma(vf_set1(-1.1197298e-3f), u4, vf_set1(-2.2171992e-3f));
    p0 = vf_fma(p0, u4, vf_set1(5.191599e-2f));
    p1 = vf_fma(p1, u4, vf_set1(-2.1849284e-2f));
    p2 = vf_fma(p2, u4, vf_set1(-2.7567342e-2f));
    p3 = vf_fma(p3, u4, vf_set1(4.9845643e-2f));
    p0 = vf_fma(p0, u4, vf_set1(8.368257e-4f));
    p1 = vf_fma(p1, u4, vf_set1(-6.541332e-3f));
    p2 = vf_fma(p2, u4, vf_set1(2.2899272e-2f));
    p3 = vf_fma(p3, u4, vf_set1(-4.559745e-2f));
    const vf tail = (end - t) * vf_fma(vf_fma(p3, u, p2), u2, vf_fma(p1, u, p0));
    return x * vf_select(vf_lt(x, vf_set1(0.0f)), tail, vf_set1(1.0f) - tail);
}

/* (1 + tanh u) / 2 = sigmoid(2u) */
static inline vf vf_gelu_tanh(vf x)
{
    const vf inner = vf_fma(vf_set1(0.044715f) * x, x * x, x);
    return vf_times_sigmoid(x, vf_set1(1.59576912f) * inner);
}

/* x < 0: alpha·(e^(x·scale) − 1) */
static inline vf vf_elu(vf x, vf alpha, vf scale)
{
    const vf zero = vf_set1(0.0f);
    const vf low = alpha * vf_expm1_of_negative(vf_at_most(zero, x * scale));
    return vf_select(vf_lt(x, zero), low, x);
}

/* tanh(ln(1 + e^x)) = m / (m + 2) with m = e^x·(e^x + 2); from x = 20 on it is 1 in float. */
static inline vf vf_mish(vf x)
{
    const vf two = vf_set1(2.0f), e = vf_exp(vf_at_most(vf_set1(20.0f), x)), m = e * (e + two);
    return x * (m / (m + two));
}

static inline vf vf_activate(enum activation kind, vf x, float alpha, float beta)
{
    const vf zero = vf_set1(0.0f), a = vf_set1(alpha), b = vf_set1(beta);
    switch (kind) {
    case ACT_RELU:
        return vf_at_least(zero, x);
    case ACT_CLIP:
        return vf_at_most(b, vf_at_least(a, x));
    case ACT_LEAKY_RELU:
        return vf_select(vf_lt(x, zero), a * x, x);
    case ACT_SIGMOID:
        return vf_sigmoid(x);
    case ACT_HARD_SIGMOID:
        return vf_clip_to_unit(vf_fma(a, x, b));
    case ACT_HARD_SWISH:
        return x * vf_clip_to_unit(vf_fma(x, vf_set1(1.0f / 6), vf_set1(0.5f)));
    case ACT_SWISH:
        return vf_times_sigmoid(x, a * x);
    case ACT_TANH:
        return vf_tanh(x);
    case ACT_GELU:
        return vf_gelu(x);
    case ACT_GELU_TANH:
        return vf_gelu_tanh(x);
    case ACT_ELU:
        return vf_elu(x, a, vf_set1(1.0f));
    case ACT_SOFTSIGN:
        return x / (vf_set1(1.0f) + vf_abs(x));
    case ACT_SOFTPLUS:
        return vf_softplus(x);
    case ACT_AFFINE:
        return vf_fma(a, x, b);
    case ACT_THRESHOLDED_RELU:
        return vf_select(vf_lt(a, x), x, zero);
    case ACT_SCALED_TANH:
        return a * vf_tanh(b * x);
    case ACT_MISH:
        return vf_mish(x);
    case ACT_SELU:
        return b * vf_elu(x, a, vf_set1(1.0f));
    case ACT_CELU:
        return vf_elu(x, a, vf_set1(1.0f) / a);
    case ACT_NONE:
    case ACT_COUNT:
        break;
    }
    return x;
}

/* Activates `channels` channels of each of `count` positions that are stored, `step` floats apart,
 * by an activation that takes more than few instructions. A micro-kernel that computed it between
 * its sums and its stores would spill the accumulators, and the more positions one call has, the
 * more the CPU works on at the same time.
 */
typedef void activate_stored_fn(enum activation kind, float *y, int64_t count, int64_t step,
                                int64_t channels, float alpha, float beta);
activate_stored_fn activate_stored_sse2, activate_stored_neon, activate_stored_avx2,
    activate_stored_avx512f;

#endif
