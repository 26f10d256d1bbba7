/* Activations of what is stored: a loop for each, so that nothing is decided for a vector. */
#include "simd/activation_vector.h"

enum { TOGETHER = 4 }; /* vectors whose instructions the compiler may interleave */

static inline __attribute__((always_inline)) void
activate_all(enum activation kind, float *y, int64_t count, int64_t step, float alpha, float beta)
{
    int64_t i = 0;
    for (; i + TOGETHER <= count; i += TOGETHER, y += TOGETHER * step) {
        vf x[TOGETHER];
#pragma GCC unroll 4
        for (int j = 0; j < TOGETHER; j++)
            x[j] = vf_activate(kind, vf_load(y + j * step), alpha, beta);
#pragma GCC unroll 4
        for (int j = 0; j < TOGETHER; j++)
            vf_store(y + j * step, x[j]);
    }
    for (; i < count; i++, y += step)
        vf_store(y, vf_activate(kind, vf_load(y), alpha, beta));
}

void FOR_ISA(activate_stored)(enum activation kind, float *y, int64_t count, int64_t step,
                              int64_t channels, float alpha, float beta)
{
#define CASE(kind)                                                                                 \
    case kind:                                                                                     \
        activate_all(kind, y + at, count, step, alpha, beta);                                      \
        break
    for (int64_t at = 0; at < channels; at += VF)
        switch (kind) {
            CASE(ACT_SIGMOID);
            CASE(ACT_HARD_SWISH);
            CASE(ACT_SWISH);
            CASE(ACT_GELU);
            CASE(ACT_GELU_TANH);
        default: /* rarer: the decision is a small part of the work */
            for (int64_t i = 0; i < count; i++)
                activate_all(kind, y + at + i * step, 1, step, alpha, beta);
        }
#undef CASE
}
