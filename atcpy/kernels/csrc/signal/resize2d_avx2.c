/* resize2d on AVX2: pixels of 16 channels in registers, single ones gathered. */
#include "signal/resize2d_linear.h"

#include <immintrin.h>

enum { LANES = 8 };

static inline __m256 mix(__m256 low_weight, __m256 low, __m256 high_weight, __m256 high)
{
    return _mm256_add_ps(_mm256_mul_ps(low_weight, low), _mm256_mul_ps(high_weight, high));
}

static void mix_pixels(float *dst, const float *row, const struct resize_taps *taps, int64_t n,
                       int64_t c0)
{
    if (c0 == RESIZE_C0) {
        for (int64_t i = 0; i < n; i++) {
            const __m256 a = _mm256_set1_ps(taps->low_weight[i]);
            const __m256 b = _mm256_set1_ps(taps->high_weight[i]);
            const float *low = row + (int64_t)taps->low[i] * RESIZE_C0;
            const float *high = row + (int64_t)taps->high[i] * RESIZE_C0;
            for (int c = 0; c < RESIZE_C0; c += LANES)
                _mm256_storeu_ps(dst + i * RESIZE_C0 + c,
                                 mix(a, _mm256_loadu_ps(low + c), b, _mm256_loadu_ps(high + c)));
        }
        return;
    }
    int64_t i = 0;
    if (c0 == 1)
        for (; i + LANES <= n; i += LANES) {
            const __m256 low =
                _mm256_i32gather_ps(row, _mm256_loadu_si256((const __m256i *)(taps->low + i)), 4);
            const __m256 high =
                _mm256_i32gather_ps(row, _mm256_loadu_si256((const __m256i *)(taps->high + i)), 4);
            _mm256_storeu_ps(dst + i, mix(_mm256_loadu_ps(taps->low_weight + i), low,
                                          _mm256_loadu_ps(taps->high_weight + i), high));
        }
    mix_pixels_plainly(dst, row, taps, i, n, c0);
}

void resize2d_f32_avx2(const struct kernel_args *args)
{
    resize2d_linear(args, mix_rows, mix_pixels);
}
