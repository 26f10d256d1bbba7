/* resize2d on AVX-512: pixels of 16 channels in registers, single ones gathered. */
#include "signal/resize2d_linear.h"

#include <immintrin.h>

enum { LANES = 16 };

static inline __m512 mix(__m512 low_weight, __m512 low, __m512 high_weight, __m512 high)
{
    return _mm512_add_ps(_mm512_mul_ps(low_weight, low), _mm512_mul_ps(high_weight, high));
}

static void mix_pixels(float *dst, const float *row, const struct resize_taps *taps, int64_t n,
                       int64_t c0)
{
    if (c0 == RESIZE_C0) {
        for (int64_t i = 0; i < n; i++) {
            const __m512 a = _mm512_set1_ps(taps->low_weight[i]);
            const __m512 b = _mm512_set1_ps(taps->high_weight[i]);
            const float *low = row + (int64_t)taps->low[i] * RESIZE_C0;
            const float *high = row + (int64_t)taps->high[i] * RESIZE_C0;
            for (int c = 0; c < RESIZE_C0; c += LANES)
                _mm512_storeu_ps(dst + i * RESIZE_C0 + c,
                                 mix(a, _mm512_loadu_ps(low + c), b, _mm512_loadu_ps(high + c)));
        }
        return;
    }
    int64_t i = 0;
    if (c0 == 1)
        for (; i + LANES <= n; i += LANES) {
            const __m512 low = _mm512_i32gather_ps(_mm512_loadu_si512(taps->low + i), row, 4);
            const __m512 high = _mm512_i32gather_ps(_mm512_loadu_si512(taps->high + i), row, 4);
            _mm512_storeu_ps(dst + i, mix(_mm512_loadu_ps(taps->low_weight + i), low,
                                          _mm512_loadu_ps(taps->high_weight + i), high));
        }
    mix_pixels_plainly(dst, row, taps, i, n, c0);
}

void resize2d_f32_avx512f(const struct kernel_args *args)
{
    resize2d_linear(args, mix_rows, mix_pixels);
}
