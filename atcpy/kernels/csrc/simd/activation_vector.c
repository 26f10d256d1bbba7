/* Activations of what is stored: a loop for each, so that nothing is decided for a vector. */
#include "simd/activation_vector.h"

/* Vectors whose instructions the compiler may interleave: of how many positions, and neighbours in
 * a position. Registers for more than two are few on AVX2, where tiles have two neighbours.
 */
enum { POSITIONS = VF == 8 ? 1 : 4, NEIGHBOURS = VF == 8 ? 2 : 1 };

static inline __attribute__((always_inline)) void activate_all(enum activation kind, float *y,
                                                               int64_t count, int64_t step,
                                                               int neighbours, float alpha,
                                                               float beta)
{
    int64_t i = 0;
    for (; i + POSITIONS <= count; i += POSITIONS, y += POSITIONS * step) {
        vf x[POSITIONS][NEIGHBOURS];
#pragma GCC unroll 4
        for (int j = 0; j < POSITIONS; j++)
#pragma GCC unroll 2
            for (int n = 0; n < neighbours; n++)
                x[j][n] = vf_activate(kind, vf_load(y + j * step + n * VF), alpha, beta);
#pragma GCC unroll 4
        for (int j = 0; j < POSITIONS; j++)
#pragma GCC unroll 2
            for (int n = 0; n < neighbours; n++)
                vf_store(y + j * step + n * VF, x[j][n]);
    }
    for (; i < count; i++, y += step)
#pragma GCC unroll 2
        for (int n = 0; n < neighbours; n++)
            vf_store(y + n * VF, vf_activate(kind, vf_load(y + n * VF), alpha, beta));
}

static inline __attribute__((always_inline)) void activate_channels(enum activation kind, float *y,
                                                                    int64_t count, int64_t step,
                                                                    int64_t channels, float alpha,
                                                                    float beta)
{
    int64_t at = 0;
    for (; at + NEIGHBOURS * VF <= channels; at += NEIGHBOURS * VF)
        activate_all(kind, y + at, count, step, NEIGHBOURS, alpha, beta);
    if (NEIGHBOURS > 1)
        for (; at < channels; at += VF)
            activate_all(kind, y + at, count, step, 1, alpha, beta);
}

void FOR_ISA(activate_stored)(enum activation kind, float *y, int64_t count, int64_t step,
                              int64_t channels, float alpha, float beta)
{
    if (kind == ACT_SWISH && alpha == 1.0f) { /* nearly always: a product less */
        activate_channels(ACT_SWISH, y, count, step, channels, 1.0f, beta);
        return;
    }
#define CASE(kind)                                                                                 \
    case kind:                                                                                     \
        activate_channels(kind, y, count, step, channels, alpha, beta);                            \
        break
    switch (kind) {
        CASE(ACT_SIGMOID);
        CASE(ACT_HARD_SWISH);
        CASE(ACT_SWISH);
        CASE(ACT_GELU);
        CASE(ACT_GELU_TANH);
    default: /* rarer: the decision is a small part of the work */
        for (int64_t i = 0; i < count; i++)
            for (int64_t at = 0; at < channels; at += VF) {
                float *const stored = y + at + i * step;
                vf_store(stored, vf_activate(kind, vf_load(stored), alpha, beta));
            }
    }
#undef CASE
}
