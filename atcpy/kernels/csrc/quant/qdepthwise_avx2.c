/* qdepthwise on AVX2: two halves of 8 channels. */
#include "quant/qdepthwise_loops.h"
#include "quant/qgemm_finish_avx2.h"

static inline __m256i load(const uint32_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

static inline __attribute__((always_inline)) void
sum_up(const struct qdw_windows *w, const struct qgemm_tile *tile, int first, int results)
{
    const uint32_t *in = w->in + first * w->step;
    __m256i acc[QDW_WIDTH / 2][2];
#pragma GCC unroll 4
    for (int r = 0; r < results; r++)
        for (int h = 0; h < 2; h++)
            acc[r][h] = qgemm_start_avx2(tile, 0, h);
    for (int64_t t = 0; t < w->taps; t++) {
        const uint32_t *weights = w->weights + t * QDW_C0, *x = in + w->offsets[t];
        const __m256i first_half = load(weights), second_half = load(weights + 8);
#pragma GCC unroll 4
        for (int r = 0; r < results; r++, x += w->step) {
            acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(load(x), first_half));
            acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(load(x + 8), second_half));
        }
    }
    qgemm_finish_avx2(tile, acc, tile->dst + first * tile->dst_row, first, results, 0, 1);
}

static void micro(const struct qdw_windows *w, const struct qgemm_tile *tile)
{
    if (w->results == QDW_WIDTH)
        for (int r = 0; r < QDW_WIDTH; r += QDW_WIDTH / 2)
            sum_up(w, tile, r, QDW_WIDTH / 2);
    else
        for (int r = 0; r < w->results; r++)
            sum_up(w, tile, r, 1);
}

void qdepthwise_any_avx2(const struct kernel_args *args)
{
    qdepthwise_items(args, &(struct qdw_isa){.pairs = micro});
}
