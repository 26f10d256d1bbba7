/* qdepthwise on AVX2: two halves of 8 channels. */
#include "qdepthwise_loops.h"

#include <immintrin.h>

static inline __m256i load(const uint32_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

static inline __attribute__((always_inline)) void sum_up(const uint32_t *in, int64_t step,
                                                         const int64_t *offsets,
                                                         const uint32_t *weights, int64_t taps,
                                                         int results, int32_t sums[][QDW_C0])
{
    for (int half = 0; half < QDW_C0; half += 8) {
        __m256i acc[QDW_WIDTH];
#pragma GCC unroll 8
        for (int r = 0; r < results; r++)
            acc[r] = _mm256_setzero_si256();
        for (int64_t t = 0; t < taps; t++) {
            const __m256i w = load(weights + t * QDW_C0 + half);
            const uint32_t *x = in + offsets[t] + half;
#pragma GCC unroll 8
            for (int r = 0; r < results; r++)
                acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(load(x + r * step), w));
        }
#pragma GCC unroll 8
        for (int r = 0; r < results; r++)
            _mm256_storeu_si256((__m256i *)(void *)(sums[r] + half), acc[r]);
    }
}

static void micro(const uint32_t *in, int64_t step, const int64_t *offsets, const uint32_t *weights,
                  int64_t taps, int results, int32_t sums[][QDW_C0])
{
    if (results == QDW_WIDTH)
        sum_up(in, step, offsets, weights, taps, QDW_WIDTH, sums);
    else
        for (int r = 0; r < results; r++)
            sum_up(in + r * step, step, offsets, weights, taps, 1, sums + r);
}

void qdepthwise_any_avx2(const struct kernel_args *args)
{
    qdepthwise_items(args, micro);
}
