/* qdepthwise on AVX-512 VNNI: one instruction for two taps of 16 channels. */
#include "qdepthwise_loops.h"

#include <immintrin.h>

static inline __attribute__((always_inline)) void sum_up(const uint32_t *in, int64_t step,
                                                         const int64_t *offsets,
                                                         const uint32_t *weights, int64_t taps,
                                                         int results, int32_t sums[][QDW_C0])
{
    __m512i acc[QDW_WIDTH];
#pragma GCC unroll 8
    for (int r = 0; r < results; r++)
        acc[r] = _mm512_setzero_si512();
    for (int64_t t = 0; t < taps; t++) {
        const __m512i w = _mm512_loadu_si512(weights + t * QDW_C0);
        const uint32_t *x = in + offsets[t];
#pragma GCC unroll 8
        for (int r = 0; r < results; r++)
            acc[r] = _mm512_dpwssd_epi32(acc[r], _mm512_loadu_si512(x + r * step), w);
    }
#pragma GCC unroll 8
    for (int r = 0; r < results; r++)
        _mm512_storeu_si512(sums[r], acc[r]);
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

void qdepthwise_any_avx512vnni(const struct kernel_args *args)
{
    qdepthwise_items(args, micro);
}
