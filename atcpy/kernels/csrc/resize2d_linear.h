/* The arithmetic of linear resize: one source for every ISA, vectorised by the compiler. */
#ifndef ATC_RESIZE2D_LINEAR_H
#define ATC_RESIZE2D_LINEAR_H

#include "resize2d.h"

enum { RESIZE_C0 = 16 };

static void mix_rows(float *restrict dst, const float *low, const float *high,
                     const struct resize_tap *tap, int64_t n)
{
    const float a = tap->low_weight, b = tap->high_weight;
    for (int64_t i = 0; i < n; i++)
        dst[i] = a * low[i] + b * high[i];
}

static void mix_pixels(float *restrict dst, const float *restrict row,
                       const struct resize_tap *restrict taps, int64_t n, int64_t c0)
{
    if (c0 == RESIZE_C0) {
        for (int64_t i = 0; i < n; i++) {
            const float a = taps[i].low_weight, b = taps[i].high_weight;
            const float *low = row + taps[i].low * RESIZE_C0;
            const float *high = row + taps[i].high * RESIZE_C0;
            for (int c = 0; c < RESIZE_C0; c++)
                dst[i * RESIZE_C0 + c] = a * low[c] + b * high[c];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < c0; c++)
            dst[i * c0 + c] = taps[i].low_weight * row[taps[i].low * c0 + c] +
                              taps[i].high_weight * row[taps[i].high * c0 + c];
}

#endif
