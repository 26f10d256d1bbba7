/* qwinograd2d on AVX-512 VNNI: up to 14 tiles by two panels in 28 accumulators, pairs of channels
 * broadcast.
 */
#define VECTOR_BYTES 64
#include "quant/qgemm_finish_avx512.h"
#include "quant/qwinograd2d_body.h"
#include "simd/count_up.h"

enum { MAX_TILES = 14 };

/* Two pixels in 16 bits, those outside as the zero point. */
ALWAYS_INLINE vu16 load(const uint8_t *pixels, __mmask32 inside, bool is_signed, __m512i zero)
{
    const __m256i bytes = _mm256_maskz_loadu_epi8(inside, pixels);
    return (vu16)(is_signed ? _mm512_mask_cvtepi8_epi16(zero, inside, bytes)
                            : _mm512_mask_cvtepu8_epi16(zero, inside, bytes));
}

/* Which bytes of columns 2 · pair and 2 · pair + 1 are inside. */
static inline __mmask32 columns_inside(const struct qwino_input *t, int pair)
{
    const int64_t column = 2 * pair;
    const bool first = column >= t->left && column < t->right;
    const bool second = column + 1 >= t->left && column + 1 < t->right;
    return (first ? 0xffff : 0) | (second ? 0xffff0000 : 0);
}

/* Columns are multiplied in pairs of one block, and rows in both blocks. */
ALWAYS_INLINE void transform_pairs(const struct qwino_input *t, bool inside, bool is_signed,
                                   int16_t *out, int64_t stride)
{
    enum { PAIRS = QWINO_IN / 2 };
    const __m512i zero = _mm512_set1_epi16(t->zero);
    vu16 pairs[2][PAIRS][QWINO_IN], columns[QWINO_IN][QWINO_IN];
#pragma GCC unroll 3
    for (int pair = 0; pair < PAIRS; pair++) {
        const __mmask32 mask = inside ? UINT32_MAX : columns_inside(t, pair);
#pragma GCC unroll 2
        for (int block = 0; block < 2; block++) {
            const uint8_t *x = t->x + (block < t->blocks ? block * t->plane : 0) + t->from +
                               pair * 2 * QGEMM_PANEL;
            vu16 d[QWINO_IN];
#pragma GCC unroll 6
            for (int row = 0; row < QWINO_IN; row++)
                d[row] =
                    load(x + row * t->row, inside || (row >= t->top && row < t->bottom) ? mask : 0,
                         is_signed, zero);
            b_times(d, 1, pairs[block][pair]);
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < QWINO_IN; row++)
#pragma GCC unroll 3
        for (int pair = 0; pair < PAIRS; pair++) {
            const __m512i first = (__m512i)pairs[0][pair][row];
            const __m512i second = (__m512i)pairs[1][pair][row];
            columns[2 * pair][row] = (vu16)_mm512_shuffle_i64x2(first, second, 0x44);
            columns[2 * pair + 1][row] = (vu16)_mm512_shuffle_i64x2(first, second, 0xee);
        }
    transform_rows(t, columns, out, stride);
}

static void input(const struct qwino_input *t, int16_t *out, int64_t stride)
{
    if (!is_inside(t))
        transform_pairs(t, false, t->is_signed, out, stride);
    else if (t->is_signed)
        transform_pairs(t, true, true, out, stride);
    else
        transform_pairs(t, true, false, out, stride);
}

ALWAYS_INLINE vu16 widen(vu32 fours, int pair, bool is_signed)
{
    const __m128i order =
        pair == 0 ? _mm_setr_epi8(0, 0, 0, 1, 4, 4, 4, 5, 8, 8, 8, 9, 12, 12, 12, 13)
                  : _mm_setr_epi8(2, 2, 2, 3, 6, 6, 6, 7, 10, 10, 10, 11, 14, 14, 14, 15);
    const __m512i high = _mm512_shuffle_epi8((__m512i)fours, _mm512_broadcast_i32x4(order));
    return (vu16)(is_signed ? _mm512_srai_epi16(high, 8) : _mm512_srli_epi16(high, 8));
}

ALWAYS_INLINE void finish(const struct qgemm_tile *tile, vi32 sums[][PARTS], int columns,
                          uint8_t *dst)
{
    const __m512i start = qgemm_start_avx512(tile, 0);
    __m512i row[QWINO_TILE];
#pragma GCC unroll 4
    for (int i = 0; i < QWINO_TILE; i++)
        row[i] = _mm512_add_epi32((__m512i)sums[i][0], start);
    if (columns == QWINO_TILE) {
        qgemm_finish_avx512(tile, row, dst, 0, QWINO_TILE, 0, 1);
        return;
    }
#pragma GCC unroll 3
    for (int i = 0; i < QWINO_TILE - 1; i++)
        if (i < columns)
            qgemm_finish_avx512(tile, row + i, dst + i * tile->dst_row, i, 1, 0, 1);
}

static void filters(const struct qwino_filters *f, int16_t *out, int64_t stride)
{
    transform_filters(f, widen, out, stride);
}

static void results(const struct qwino_results *tile)
{
    transform_results(tile, finish);
}

/* sums + a · b, products added two by two. One statement: gcc 12 else keeps sums in memory. */
ALWAYS_INLINE __m512i add_products(__m512i sums, __m512i a, __m512i b)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
    return sums;
}

ALWAYS_INLINE void micro(const struct qwino_product *p, int blocks, int tiles)
{
    __m512i acc[QWINO_BLOCKS][MAX_TILES];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < tiles; i++)
            acc[b][i] = _mm512_setzero_si512();
    const int16_t *in = p->inputs, *u = p->filters;
    for (int64_t left = p->pairs; left > 0; left -= QGEMM_PANEL, in += p->group_stride)
        for (int64_t pair = 0; pair < min_i64(left, QGEMM_PANEL); pair++, u += QWINO_GROUP) {
            __m512i w[QWINO_BLOCKS];
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++)
                w[b] = _mm512_loadu_si512(u + b * p->filter_block);
#pragma GCC unroll 14
            for (int i = 0; i < tiles; i++) {
                int32_t two;
                memcpy(&two, in + i * QWINO_GROUP + 2 * pair, sizeof two);
                const __m512i x = _mm512_set1_epi32(two);
#pragma GCC unroll 2
                for (int b = 0; b < blocks; b++)
                    acc[b][i] = add_products(acc[b][i], w[b], x);
            }
        }
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < tiles; i++)
            _mm512_storeu_si512(p->sums + b * p->sum_block + i * QGEMM_PANEL, acc[b][i]);
}

#define DEFINE(blocks, tiles)                                                                      \
    static void micro_##blocks##_##tiles(const struct qwino_product *p)                            \
    {                                                                                              \
        micro(p, blocks, tiles);                                                                   \
    }
#define NAME(blocks, tiles) micro_##blocks##_##tiles,

COUNT_TO_14(DEFINE, 1)
COUNT_TO_14(DEFINE, 2)

void qwinograd2d_any_avx512vnni(const struct kernel_args *args)
{
    static const qwino_micro table[] = {COUNT_TO_14(NAME, 1) COUNT_TO_14(NAME, 2)};
    static const struct qwino_isa isa = {filters, input,   MAX_TILES,
                                         table,   results, FOR_ISA(qgemm_any)};
    qwinograd2d_drive(args, &isa);
}
