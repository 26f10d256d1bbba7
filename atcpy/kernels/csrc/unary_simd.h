/* unary on float32 vectors; included after activation_*.h by the file of each ISA. */
#include "unary.h"

/* Runs `value`, an expression of x, over n elements; the tail has the same arithmetic. */
#define EACH(value)                                                                                \
    for (; i + VF <= n; i += VF) {                                                     \
        const vf x = vf_load(src + i);                                                             \
        vf_store(dst + i, value);                                                                  \
    }                                                                                              \
    if (i < n) {                                                                                   \
        const vf x = vf_load_n(src + i, n - i, 1.0f);                                                \
        vf_store_n(dst + i, value, n - i);                                                     \
    }                                                                                              \
    return

static inline vf sign(vf x)
{
    const vf zero = vf_set1(0.0f), one = vf_set1(1.0f);
    const vf y = vf_select(vf_lt(zero, x), one, x * x);
    return vf_select(vf_lt(x, zero), vf_neg(one), y);
}

/* tanh(ln(1 + e^x)) = m / (m + 2) with m = e^x·(e^x + 2); from x = 20 on it is 1 in float. */
static inline vf mish(vf x)
{
    const vf two = vf_set1(2.0f), e = VMATH(exp)(vf_at_most(vf_set1(20.0f), x)), m = e * (e + two);
    return x * (m / (m + two));
}

static void unary_vector(const struct unary_params *p, const float *src, float *dst, int64_t n)
{
    const vf alpha = vf_set1((float)p->alpha), beta = vf_set1((float)p->beta);
    const vf zero = vf_set1(0.0f), one = vf_set1(1.0f);
    int64_t i = 0;
    switch ((enum unary_op)p->op) {
    case UNARY_RELU:
        EACH(vf_at_least(zero, x));
    case UNARY_LEAKY_RELU:
        EACH(vf_select(vf_lt(x, zero), alpha * x, x));
    case UNARY_CLIP:
        EACH(vf_at_most(beta, vf_at_least(alpha, x)));
    case UNARY_THRESHOLDED_RELU:
        EACH(vf_select(vf_lt(alpha, x), x, zero));
    case UNARY_ABS:
        EACH(vf_abs(x));
    case UNARY_NEG:
        EACH(vf_neg(x));
    case UNARY_SIGN:
        EACH(sign(x));
    case UNARY_FLOOR:
        EACH(vf_floor(x));
    case UNARY_CEIL:
        EACH(vf_ceil(x));
    case UNARY_ROUND:
        EACH(vf_round(x));
    case UNARY_SQRT:
        EACH(vf_sqrt(x));
    case UNARY_RECIPROCAL:
        EACH(one / x);
    case UNARY_DIVS:
        EACH(x / alpha);
    case UNARY_POW: /* 2 or 3 (unary_in_vectors) */
        if (p->alpha == 2) {
            EACH(x * x);
        }
        EACH(x * x * x);
    case UNARY_EXP:
        EACH(VMATH(exp)(x));
    case UNARY_LOG:
        EACH(VMATH(log)(x));
    case UNARY_ERF:
        EACH(VMATH(erf)(x));
    case UNARY_SIGMOID:
        EACH(VMATH(sigmoid)(x));
    case UNARY_HARD_SIGMOID:
        EACH(VMATH(clip_to_unit)(vf_fma(alpha, x, beta)));
    case UNARY_SWISH:
        EACH(x * VMATH(sigmoid)(alpha * x));
    case UNARY_HARD_SWISH:
        EACH(x * VMATH(clip_to_unit)(vf_fma(x, vf_set1(1.0f / 6), vf_set1(0.5f))));
    case UNARY_MISH:
        EACH(mish(x));
    case UNARY_GELU:
        EACH(VMATH(gelu)(x));
    case UNARY_GELU_TANH:
        EACH(VMATH(gelu_tanh)(x));
    case UNARY_ELU:
        EACH(VMATH(elu)(x, alpha, one));
    case UNARY_SELU:
        EACH(beta * VMATH(elu)(x, alpha, one));
    case UNARY_CELU:
        EACH(VMATH(elu)(x, alpha, one / alpha));
    case UNARY_SOFTPLUS:
        EACH(VMATH(softplus)(x));
    case UNARY_SOFTSIGN:
        EACH(x / (one + vf_abs(x)));
    case UNARY_TANH:
        EACH(VMATH(tanh)(x));
    default:
        break;
    }
}

static void unary_items(const struct kernel_args *args)
{
    const struct unary_params *p = args->params;
    const int64_t begin = args->begin * UNARY_CHUNK;
    unary_vector(p, (const float *)args->src[0] + begin, (float *)args->dst[0] + begin,
                 unary_end(p, args) - begin);
}
