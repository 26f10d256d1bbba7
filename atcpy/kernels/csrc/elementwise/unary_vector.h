/* unary on float32 vectors. */
#ifndef ATC_UNARY_VECTOR_H
#define ATC_UNARY_VECTOR_H

#include "elementwise/unary.h"
#include "simd/activation_vector.h"

static inline vf sign(vf x)
{
    const vf zero = vf_set1(0.0f), one = vf_set1(1.0f);
    const vf y = vf_select(vf_lt(zero, x), one, x * x);
    return vf_select(vf_lt(x, zero), vf_neg(one), y);
}

/* The ops and their values: expressions of x, alpha, beta, zero and one. Pow is not among them. */
#define EACH_UNARY(M) \
    M(UNARY_RELU, vf_at_least(zero, x)) \
    M(UNARY_LEAKY_RELU, vf_select(vf_lt(x, zero), alpha * x, x)) \
    M(UNARY_CLIP, vf_at_most(beta, vf_at_least(alpha, x))) \
    M(UNARY_THRESHOLDED_RELU, vf_select(vf_lt(alpha, x), x, zero)) \
    M(UNARY_ABS, vf_abs(x)) \
    M(UNARY_NEG, vf_neg(x)) \
    M(UNARY_SIGN, sign(x)) \
    M(UNARY_FLOOR, vf_floor(x)) \
    M(UNARY_CEIL, vf_ceil(x)) \
    M(UNARY_ROUND, vf_round(x)) \
    M(UNARY_SQRT, vf_sqrt(x)) \
    M(UNARY_RECIPROCAL, one / x) \
    M(UNARY_DIVS, x / alpha) \
    M(UNARY_EXP, vf_exp(x)) \
    M(UNARY_LOG, vf_log(x)) \
    M(UNARY_ERF, vf_erf(x)) \
    M(UNARY_SIGMOID, vf_sigmoid(x)) \
    M(UNARY_HARD_SIGMOID, vf_clip_to_unit(vf_fma(alpha, x, beta))) \
    M(UNARY_SWISH, vf_times_sigmoid(x, alpha * x)) \
    M(UNARY_HARD_SWISH, x * vf_clip_to_unit(vf_fma(x, vf_set1(1.0f / 6), vf_set1(0.5f)))) \
    M(UNARY_MISH, vf_mish(x)) \
    M(UNARY_GELU, vf_gelu(x)) \
    M(UNARY_GELU_TANH, vf_gelu_tanh(x)) \
    M(UNARY_ELU, vf_elu(x, alpha, one)) \
    M(UNARY_SELU, beta * vf_elu(x, alpha, one)) \
    M(UNARY_CELU, vf_elu(x, alpha, one / alpha)) \
    M(UNARY_SOFTPLUS, vf_softplus(x)) \
    M(UNARY_SOFTSIGN, x / (one + vf_abs(x))) \
    M(UNARY_TANH, vf_tanh(x))

/* Runs `value`, an expression of x, over n elements; the tail has the same arithmetic. */
#define EACH(value)                                                                                \
    for (; i + VF <= n; i += VF) {                                                                 \
        const vf x = vf_load(src + i);                                                             \
        vf_store(dst + i, value);                                                                  \
    }                                                                                              \
    if (i < n) {                                                                                   \
        const vf x = vf_load_n(src + i, n - i, 1.0f);                                              \
        vf_store_n(dst + i, value, n - i);                                                         \
    }                                                                                              \
    return

static inline void unary_vector(const struct unary_params *p, const float *src, float *dst,
                                int64_t n)
{
    const vf alpha = vf_set1((float)p->alpha), beta = vf_set1((float)p->beta);
    const vf zero = vf_set1(0.0f), one = vf_set1(1.0f);
    int64_t i = 0;
    switch ((enum unary_op)p->op) {
#define CASE(op, value)                                                                            \
    case op:                                                                                       \
        EACH(value);
        EACH_UNARY(CASE)
#undef CASE
    case UNARY_POW: /* 2 or 3 (unary_in_vectors) */
        if (p->alpha == 2) {
            EACH(x * x);
        }
        EACH(x * x * x);
    default:
        break;
    }
}

static inline void unary_items(const struct kernel_args *args)
{
    const struct unary_params *p = args->params;
    const int64_t begin = args->begin * UNARY_CHUNK;
    unary_vector(p, (const float *)args->src[0] + begin, (float *)args->dst[0] + begin,
                 unary_end(p, args) - begin);
}

#endif
