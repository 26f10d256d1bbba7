/* Activations that a kernel applies to its result before it stores it. */
#ifndef ATC_ACTIVATION_H
#define ATC_ACTIVATION_H

#include <math.h>

/* In the order of `activation_names` (conv2d.c). */
enum activation {
    ACT_NONE,
    ACT_RELU,
    ACT_CLIP,       /* to [alpha, beta] */
    ACT_LEAKY_RELU, /* x < 0: alpha·x */
    ACT_SIGMOID,
    ACT_HARD_SIGMOID, /* clip(alpha·x + beta, 0, 1) */
    ACT_HARD_SWISH,   /* x · clip(x/6 + 1/2, 0, 1) */
    ACT_SWISH,        /* x · sigmoid(alpha·x) */
    ACT_TANH,
};

extern const char *const activation_names[];

/* x within [0, 1]; NaN passes */
static inline float clip_to_unit(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static inline float activate_f32(enum activation kind, float x, float alpha, float beta)
{
    switch (kind) {
    case ACT_RELU:
        return x < 0 ? 0 : x; /* NaN passes */
    case ACT_CLIP:
        return x < alpha ? alpha : x > beta ? beta : x;
    case ACT_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case ACT_SIGMOID:
        return 1 / (1 + expf(-x));
    case ACT_HARD_SIGMOID:
        return clip_to_unit(alpha * x + beta);
    case ACT_HARD_SWISH:
        return x * clip_to_unit(x / 6 + 0.5f);
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
