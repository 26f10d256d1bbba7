/* Linear resize as every ISA shares it. */
#ifndef ATC_RESIZE2D_LINEAR_H
#define ATC_RESIZE2D_LINEAR_H

#include "signal/resize2d.h"

enum { RESIZE_C0 = 16 };

static inline void mix_rows(float *restrict dst, const float *low, const float *high,
                            const struct resize_tap *tap, int64_t n)
{
    const float a = tap->low_weight, b = tap->high_weight;
    for (int64_t i = 0; i < n; i++)
        dst[i] = a * low[i] + b * high[i];
}

/* Pixels [begin, n), of any number of channels. */
static inline void mix_pixels_plainly(float *restrict dst, const float *restrict row,
                                      const struct resize_taps *taps, int64_t begin, int64_t n,
                                      int64_t c0)
{
    for (int64_t i = begin; i < n; i++)
        for (int64_t c = 0; c < c0; c++)
            dst[i * c0 + c] = taps->low_weight[i] * row[taps->low[i] * c0 + c] +
                              taps->high_weight[i] * row[taps->high[i] * c0 + c];
}

#endif
