/* resize2d on vectors: pixels of whole vectors of channels, single ones gathered. */
#include "signal/resize2d_linear.h"
#include "simd/vector.h"

static inline vf mix(vf low_weight, vf low, vf high_weight, vf high)
{
    return vf_add(vf_mul(low_weight, low), vf_mul(high_weight, high));
}

/* Pixels of whole vectors; `c0` is a constant where this is inlined for the blocks of NC1HWC0. */
static inline __attribute__((always_inline)) void
mix_vectors(float *dst, const float *row, const struct resize_taps *taps, int64_t n, int64_t c0)
{
    for (int64_t i = 0; i < n; i++) {
        const vf a = vf_set1(taps->low_weight[i]), b = vf_set1(taps->high_weight[i]);
        const float *low = row + taps->low[i] * c0, *high = row + taps->high[i] * c0;
        for (int64_t c = 0; c < c0; c += VF)
            vf_store(dst + i * c0 + c, mix(a, vf_load(low + c), b, vf_load(high + c)));
    }
}

static void mix_pixels(float *dst, const float *row, const struct resize_taps *taps, int64_t n,
                       int64_t c0)
{
    if (c0 == RESIZE_C0) {
        mix_vectors(dst, row, taps, n, RESIZE_C0);
        return;
    }
    if (c0 % VF == 0) {
        mix_vectors(dst, row, taps, n, c0);
        return;
    }
    int64_t i = 0;
    if (c0 == 1)
        for (; i + VF <= n; i += VF) {
            const vf low = vf_gather(row, taps->low + i), high = vf_gather(row, taps->high + i);
            vf_store(dst + i,
                     mix(vf_load(taps->low_weight + i), low, vf_load(taps->high_weight + i), high));
        }
    mix_pixels_plainly(dst, row, taps, i, n, c0);
}

void FOR_ISA(resize2d_f32)(const struct kernel_args *args)
{
    resize2d_linear(args, mix_rows, mix_pixels);
}
