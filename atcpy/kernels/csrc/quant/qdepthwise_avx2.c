/* qdepthwise on AVX2: two vectors of 8 channels, two taps in each lane. */
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

/* --- windows where they lie ------------------------------------------------------------------- */

enum { MAX_PAIRS = 3, MAX_STRIDE = 2, SPAN = (QDW_TILE - 1) * MAX_STRIDE + 2 * MAX_PAIRS };

static bool has_code(const struct qdepthwise_params *p)
{
    return p->kw > 2 && p->kw <= 2 * MAX_PAIRS && p->sw <= MAX_STRIDE;
}

static inline __m256i words_of(const uint8_t *pixel, bool is_signed)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)pixel);
    return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

/* From channels 0 … 7 and 8 … 15 to 0 … 3 with 8 … 11 and 4 … 7 with 12 … 15, or back: what
 * interleaving two pixels makes of them.
 */
static inline void swap_quarters(__m256i v[2])
{
    const __m256i first = v[0];
    v[0] = _mm256_permute2x128_si256(first, v[1], 0x20);
    v[1] = _mm256_permute2x128_si256(first, v[1], 0x31);
}

/* Copies pixels of a row from `at` on, and what lies beside it where `at` lies outside. */
static inline __attribute__((always_inline)) void
copy_edge(const struct qdw_lines *l, const uint8_t *row, int64_t at, int pixels, uint8_t *to)
{
    const __m128i beside = _mm_set1_epi8((char)l->outside);
    const int64_t width = l->p->w;
#pragma GCC unroll 11
    for (int i = 0; i < pixels; i++) {
        __m128i pixel = beside;
        if (at + i >= 0 && at + i < width)
            pixel = _mm_loadu_si128((const __m128i *)(const void *)(row + (at + i) * QDW_C0));
        _mm_store_si128((__m128i *)(void *)(to + i * QDW_C0), pixel);
    }
}

/* Four results of a row, from column x on: neighbours are interleaved once for all windows that
 * have them as a pair of taps.
 */
static inline __attribute__((always_inline)) void sum_four(const struct qdw_lines *l,
                                                           const struct qgemm_tile *tile, int row,
                                                           int64_t x, int pairs, int stride,
                                                           bool is_signed)
{
    const struct qdepthwise_params *p = l->p;
    const int pixels = (QDW_TILE - 1) * stride + 2 * pairs;
    const int64_t at = x * stride - p->pl;
    const bool is_inside = at >= 0 && at + pixels <= p->w;
    _Alignas(32) uint8_t edge[SPAN * QDW_C0];
    __m256i start[2] = {qgemm_start_avx2(tile, 0, 0), qgemm_start_avx2(tile, 0, 1)};
    swap_quarters(start);
    __m256i acc[QDW_TILE][2];
#pragma GCC unroll 4
    for (int c = 0; c < QDW_TILE; c++)
        for (int h = 0; h < 2; h++)
            acc[c][h] = start[h];
    const uint32_t *weights = l->weights;
    for (int64_t y = 0; y < p->kh; y++, weights += pairs * QDW_C0) {
        const uint8_t *from = l->in[row * p->sh + y * p->dh];
        if (is_inside) {
            from += at * QDW_C0;
        } else {
            copy_edge(l, from, at, pixels, edge);
            from = edge;
        }
#pragma GCC unroll 11
        for (int i = 0; i < pixels - 1; i++) {
            const __m256i first = words_of(from + i * QDW_C0, is_signed);
            const __m256i second = words_of(from + (i + 1) * QDW_C0, is_signed);
            const __m256i both[2] = {_mm256_unpacklo_epi16(first, second),
                                     _mm256_unpackhi_epi16(first, second)};
#pragma GCC unroll 4
            for (int c = 0; c < QDW_TILE; c++) {
                const int tap = i - c * stride;
                if (tap < 0 || tap % 2 != 0 || tap / 2 >= pairs)
                    continue;
                const uint32_t *w = weights + tap / 2 * QDW_C0;
                acc[c][0] = qgemm_add_products_avx2(acc[c][0], both[0], load(w));
                acc[c][1] = qgemm_add_products_avx2(acc[c][1], both[1], load(w + 8));
            }
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < QDW_TILE; c++)
        swap_quarters(acc[c]);
    uint8_t *dst = tile->dst + row * l->dst_line + x * tile->dst_row;
    uint8_t results[QDW_TILE * QDW_C0 * 4];
    const bool is_whole = l->end - x >= QDW_TILE;
    qgemm_finish_avx2(tile, acc, is_whole ? dst : results, 0, QDW_TILE, 0, 1);
    if (!is_whole)
        memcpy(dst, results, (size_t)((l->end - x) * tile->dst_row));
}

#define DEFINE_LINES(pairs, stride, is_signed)                                                     \
    static void lines_##pairs##_##stride##_##is_signed(const struct qdw_lines *l,                  \
                                                       const struct qgemm_tile *tile)              \
    {                                                                                              \
        for (int row = 0; row < l->rows; row++)                                                    \
            for (int64_t x = l->begin; x < l->end; x += QDW_TILE)                                  \
                sum_four(l, tile, row, x, pairs, stride, is_signed);                               \
    }
#define DEFINE_BOTH(pairs, stride)  DEFINE_LINES(pairs, stride, 0) DEFINE_LINES(pairs, stride, 1)
#define NAME_BOTH(pairs, stride)    {lines_##pairs##_##stride##_0, lines_##pairs##_##stride##_1}

DEFINE_BOTH(2, 1)
DEFINE_BOTH(2, 2)
DEFINE_BOTH(3, 1)
DEFINE_BOTH(3, 2)

static void sum_lines(const struct qdw_lines *l, const struct qgemm_tile *tile)
{
    static const qdw_direct by_window[2][MAX_STRIDE][2] = {
        {NAME_BOTH(2, 1), NAME_BOTH(2, 2)},
        {NAME_BOTH(3, 1), NAME_BOTH(3, 2)},
    };
    by_window[l->p->kw > 4][l->p->sw - 1][l->p->x_signed](l, tile);
}

/* Weights less their zero points as pairs of words, in the order of channels that interleaving
 * makes. They fit always.
 */
static bool pack_weights(const struct qdepthwise_params *p, const struct qdw_weights *w,
                         uint8_t *values, uint32_t *to, uint32_t sums[QDW_C0])
{
    (void)values;
    if (!has_code(p))
        return false;
    for (int64_t y = 0; y < p->kh; y++)
        for (int64_t x = 0; x < p->kw; x += 2, to += QDW_C0)
            for (int i = 0; i < QDW_C0; i++) {
                const int lane = (i / 4 % 2) * 8 + i / 8 * 4 + i % 4;
                const int64_t at = (y * p->kw + x) * QDW_C0 + i;
                const int32_t low = byte_at(w->w, at, w->is_signed) - w->zeros[i];
                const int32_t high =
                    x + 1 < p->kw ? byte_at(w->w, at + QDW_C0, w->is_signed) - w->zeros[i] : 0;
                to[lane] = ((uint32_t)low & 0xffff) | (uint32_t)high << 16;
                sums[i] += (uint32_t)low + (uint32_t)high;
            }
    return true;
}

void qdepthwise_any_avx2(const struct kernel_args *args)
{
    qdepthwise_items(args, &(struct qdw_isa){.pairs = micro,
                                             .direct = sum_lines,
                                             .pack_weights = pack_weights,
                                             .reads_signed = true});
}
