/* Activations of what is stored: a loop for each, so that nothing is decided for a vector. */
#include "simd/activation_vector.h"

static inline __attribute__((always_inline)) void
activate_all(enum activation kind, float *y, int64_t count, int64_t step, float alpha, float beta)
{
    for (int64_t i = 0; i < count; i++, y += step)
        vf_store(y, vf_activate(kind, vf_load(y), alpha, beta));
}

void FOR_ISA(activate_stored)(enum activation kind, float *y, int64_t count, int64_t step,
                              float alpha, float beta)
{
#define CASE(kind)                                                                                 \
    case kind:                                                                                     \
        activate_all(kind, y, count, step, alpha, beta);                                           \
        break
    switch (kind) {
        CASE(ACT_SIGMOID);
        CASE(ACT_HARD_SWISH);
        CASE(ACT_SWISH);
        CASE(ACT_GELU);
    default: /* rarer: the decision is a small part of the work */
        activate_all(kind, y, count, step, alpha, beta);
    }
#undef CASE
}
