/* Activations that a kernel applies to its result before it stores it. NaN passes each. */
#ifndef ATC_ACTIVATION_H
#define ATC_ACTIVATION_H

#include <math.h>

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
};

extern const char *const activation_names[];

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
    case ACT_NONE:
        break;
    }
    return x;
}

#endif
