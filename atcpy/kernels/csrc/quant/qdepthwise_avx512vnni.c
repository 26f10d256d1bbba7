/* qdepthwise on AVX-512 VNNI: one instruction for two taps of 16 channels. */
#include "quant/qdepthwise_loops.h"
#include "quant/qgemm_finish_avx512.h"

static inline __attribute__((always_inline)) void
sum_up(const struct qdw_windows *w, const struct qgemm_tile *tile, int first, int results)
{
    const uint32_t *in = w->in + first * w->step;
    __m512i acc[QDW_WIDTH];
#pragma GCC unroll 8
    for (int r = 0; r < results; r++)
        acc[r] = qgemm_start_avx512(tile, 0);
    for (int64_t t = 0; t < w->taps; t++) {
        const __m512i weights = _mm512_loadu_si512(w->weights + t * QDW_C0);
        const uint32_t *x = in + w->offsets[t];
#pragma GCC unroll 8
        for (int r = 0; r < results; r++)
            acc[r] = _mm512_dpwssd_epi32(acc[r], _mm512_loadu_si512(x + r * w->step), weights);
    }
    qgemm_finish_avx512(tile, acc, first, results, 0, 1);
}

static void micro(const struct qdw_windows *w, const struct qgemm_tile *tile)
{
    if (w->results == QDW_WIDTH)
        sum_up(w, tile, 0, QDW_WIDTH);
    else
        for (int r = 0; r < w->results; r++)
            sum_up(w, tile, r, 1);
}

void qdepthwise_any_avx512vnni(const struct kernel_args *args)
{
    qdepthwise_items(args, micro);
}
