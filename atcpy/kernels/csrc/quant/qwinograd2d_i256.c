/* qwinograd2d in vectors of 256 bits: up to 3 tiles by two panels in 12 accumulators. */
#define VECTOR_BYTES 32
#include "quant/qgemm_finish_avx2.h"
#include "quant/qwinograd2d_body.h"
#include "simd/count_up.h"

enum { MAX_TILES = 3 };

ALWAYS_INLINE vu16 load(const uint8_t *pixel, bool is_signed)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)pixel);
    return (vu16)(is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes));
}

ALWAYS_INLINE vu16 widen(vu32 fours, int pair, bool is_signed)
{
    const __m128i order =
        pair == 0 ? _mm_setr_epi8(0, 0, 0, 1, 4, 4, 4, 5, 8, 8, 8, 9, 12, 12, 12, 13)
                  : _mm_setr_epi8(2, 2, 2, 3, 6, 6, 6, 7, 10, 10, 10, 11, 14, 14, 14, 15);
    const __m256i high = _mm256_shuffle_epi8((__m256i)fours, _mm256_broadcastsi128_si256(order));
    return (vu16)(is_signed ? _mm256_srai_epi16(high, 8) : _mm256_srli_epi16(high, 8));
}

ALWAYS_INLINE void finish(const struct qgemm_tile *tile, vi32 sums[][PARTS], int columns,
                          uint8_t *dst)
{
    __m256i row[QWINO_TILE][2];
#pragma GCC unroll 4
    for (int i = 0; i < QWINO_TILE; i++)
        for (int half = 0; half < 2; half++)
            row[i][half] =
                _mm256_add_epi32((__m256i)sums[i][half], qgemm_start_avx2(tile, 0, half));
    if (columns == QWINO_TILE) {
        qgemm_finish_avx2(tile, row, dst, 0, QWINO_TILE, 0, 1);
        return;
    }
    for (int i = 0; i < columns; i++)
        qgemm_finish_avx2(tile, row + i, dst + i * tile->dst_row, i, 1, 0, 1);
}

static void filters(const struct qwino_filters *f, int16_t *out, int64_t stride)
{
    transform_filters(f, widen, out, stride);
}

static void input(const struct qwino_input *tile, int16_t *out, int64_t stride)
{
    transform_input(tile, load, out, stride);
}

static void results(const struct qwino_results *tile)
{
    transform_results(tile, finish);
}

ALWAYS_INLINE void micro(const struct qwino_product *p, int blocks, int tiles)
{
    __m256i acc[QWINO_BLOCKS][MAX_TILES][2];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 3
        for (int i = 0; i < tiles; i++)
            acc[b][i][0] = acc[b][i][1] = _mm256_setzero_si256();
    const int16_t *in = p->inputs, *u = p->filters;
    for (int64_t left = p->pairs; left > 0; left -= QGEMM_PANEL, in += p->group_stride)
        for (int64_t pair = 0; pair < min_i64(left, QGEMM_PANEL); pair++, u += QWINO_GROUP) {
            __m256i x[MAX_TILES];
#pragma GCC unroll 3
            for (int i = 0; i < tiles; i++) {
                int32_t two;
                memcpy(&two, in + i * QWINO_GROUP + 2 * pair, sizeof two);
                x[i] = _mm256_set1_epi32(two);
            }
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++)
#pragma GCC unroll 2
                for (int half = 0; half < 2; half++) {
                    const __m256i w = _mm256_loadu_si256(
                        (const __m256i *)(const void *)(u + b * p->filter_block + half * CHANNELS));
#pragma GCC unroll 3
                    for (int i = 0; i < tiles; i++)
                        acc[b][i][half] = qgemm_add_products_avx2(acc[b][i][half], w, x[i]);
                }
        }
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 3
        for (int i = 0; i < tiles; i++)
            for (int half = 0; half < 2; half++)
                _mm256_storeu_si256((__m256i *)(void *)(p->sums + b * p->sum_block +
                                                        i * QGEMM_PANEL + half * COLUMNS),
                                    acc[b][i][half]);
}

#define DEFINE(blocks, tiles)                                                                      \
    static void micro_##blocks##_##tiles(const struct qwino_product *p)                            \
    {                                                                                              \
        micro(p, blocks, tiles);                                                                   \
    }
#define NAME(blocks, tiles) micro_##blocks##_##tiles,

COUNT_TO_3(DEFINE, 1)
COUNT_TO_3(DEFINE, 2)

void FOR_ISA(qwinograd2d_any)(const struct kernel_args *args)
{
    static const qwino_micro table[] = {COUNT_TO_3(NAME, 1) COUNT_TO_3(NAME, 2)};
    static const struct qwino_isa isa = {filters, input,   MAX_TILES,
                                         table,   results, FOR_ISA(qgemm_any)};
    qwinograd2d_drive(args, &isa);
}
