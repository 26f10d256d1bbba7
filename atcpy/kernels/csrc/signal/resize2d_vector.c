/* resize2d on vectors: pixels of 16 channels in registers, single ones gathered. */
#include "signal/resize2d_linear.h"
#include "simd/vector.h"

static inline vf mix(vf low_weight, vf low, vf high_weight, vf high)
{
    return vf_add(vf_mul(low_weight, low), vf_mul(high_weight, high));
}

static void mix_pixels(float *dst, const float *row, const struct resize_taps *taps, int64_t n,
                       int64_t c0)
{
    if (c0 == RESIZE_C0) {
        for (int64_t i = 0; i < n; i++) {
            const vf a = vf_set1(taps->low_weight[i]), b = vf_set1(taps->high_weight[i]);
            const float *low = row + (int64_t)taps->low[i] * RESIZE_C0;
            const float *high = row + (int64_t)taps->high[i] * RESIZE_C0;
            for (int c = 0; c < RESIZE_C0; c += VF)
                vf_store(dst + i * RESIZE_C0 + c, mix(a, vf_load(low + c), b, vf_load(high + c)));
        }
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
