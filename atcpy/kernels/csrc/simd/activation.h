/* Activations that a kernel applies to its result before it stores it. NaN passes each. */
#ifndef ATC_ACTIVATION_H
#define ATC_ACTIVATION_H

#include <math.h>
#include <stdbool.h>

/* In the order of `activation_names` (conv2d.c). */
enum activation {
    ACT_NONE,
    ACT_RELU,
    ACT_CLIP,       /* to [alpha, beta]; beta where alpha is above it */
    ACT_LEAKY_RELU, /* x < 0: alpha·x */
    ACT_SIGMOID,
    ACT_HARD_SIGMOID, /* clip(alpha·x + beta, 0, 1) */
    ACT_HARD_SWISH,   /* x · clip(x/6 + 1/2, 0, 1) */
    ACT_SWISH,        /* x · sigmoid(alpha·x) */
    ACT_TANH,
    ACT_GELU,             /* x/2 · (1 + erf(x/√2)) */
    ACT_GELU_TANH,        /* x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³))) */
    ACT_ELU,              /* x < 0: alpha·(e^x − 1) */
    ACT_SOFTSIGN,         /* x / (1 + |x|) */
    ACT_SOFTPLUS,         /* ln(1 + e^x) */
    ACT_AFFINE,           /* alpha·x + beta */
    ACT_THRESHOLDED_RELU, /* x > alpha ? x : 0 */
    ACT_SCALED_TANH,      /* alpha · tanh(beta·x) */
    ACT_MISH,             /* x · tanh(ln(1 + e^x)) */
    ACT_SELU,             /* beta·x; x < 0: beta·alpha·(e^x − 1) */
    ACT_CELU,             /* x < 0: alpha·(e^(x/alpha) − 1) */
    ACT_COUNT,
};

extern const char *const activation_names[];

/* Activations of few instructions, which fit among the accumulators of a micro-kernel: branch once
 * for all of them.
 */
static inline bool activates_in_registers(enum activation kind)
{
    return kind <= ACT_CLIP;
}

static inline float clip_f32(float x, float low, float high)
{
    const float raised = x < low ? low : x;
    return raised > high ? high : raised;
}

static inline float activate_f32(enum activation kind, float x, float alpha, float beta)
{
    switch (kind) {
    case ACT_RELU:
        return x < 0 ? 0 : x;
    case ACT_CLIP:
        return clip_f32(x, alpha, beta);
    case ACT_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case ACT_SIGMOID:
        return 1 / (1 + expf(-x));
    case ACT_HARD_SIGMOID:
        return clip_f32(alpha * x + beta, 0, 1);
    case ACT_HARD_SWISH:
        return x * clip_f32(x / 6 + 0.5f, 0, 1);
    case ACT_SWISH:
        return x / (1 + expf(-alpha * x));
    case ACT_TANH:
        return tanhf(x);
    case ACT_GELU:
        return x / 2 * (1 + erff(x * 0.707106781f));
    case ACT_GELU_TANH: /* (1 + tanh u) / 2 = sigmoid(2u) */
        return x / (1 + expf(-1.59576912f * (x + 0.044715f * x * x * x)));
    case ACT_ELU:
        return x < 0 ? alpha * expm1f(x) : x;
    case ACT_SOFTSIGN:
        return x / (1 + fabsf(x));
    case ACT_SOFTPLUS:
        return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x)));
    case ACT_AFFINE:
        return alpha * x + beta;
    case ACT_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case ACT_SCALED_TANH:
        return alpha * tanhf(beta * x);
    case ACT_MISH:
        return x * tanhf((x < 0 ? 0 : x) + log1pf(expf(-fabsf(x))));
    case ACT_SELU:
        return beta * (x < 0 ? alpha * expm1f(x) : x);
    case ACT_CELU:
        return x < 0 ? alpha * expm1f(x / alpha) : x;
    case ACT_NONE:
    case ACT_COUNT:
        break;
    }
    return x;
}

#endif
