/* qdepthwise on AVX-512 VNNI: one instruction for two taps of 16 channels, or for four. */
#include "quant/qdepthwise_loops.h"
#include "quant/qgemm_finish_avx512.h"
#include "simd/count_up.h"

static inline __attribute__((always_inline)) void sum_up(const struct qdw_windows *w,
                                                         const struct qgemm_tile *tile, int results)
{
    __m512i acc[QDW_WIDTH];
#pragma GCC unroll 8
    for (int r = 0; r < results; r++)
        acc[r] = qgemm_start_avx512(tile, 0);
    for (int64_t t = 0; t < w->taps; t++) {
        const __m512i weights = _mm512_loadu_si512(w->weights + t * QDW_C0);
        const uint32_t *x = w->in + w->offsets[t];
#pragma GCC unroll 8
        for (int r = 0; r < results; r++)
            acc[r] = _mm512_dpwssd_epi32(acc[r], _mm512_loadu_si512(x + r * w->step), weights);
    }
    qgemm_finish_avx512(tile, acc, tile->dst, 0, results, 0, 1);
}

#define DEFINE(name, results)                                                                      \
    static void name##_##results(const struct qdw_windows *w, const struct qgemm_tile *tile)       \
    {                                                                                              \
        sum_up(w, tile, results);                                                                  \
    }
#define NAME(name, results) name##_##results,

COUNT_TO_8(DEFINE, pairs)

static void sum_pairs(const struct qdw_windows *w, const struct qgemm_tile *tile)
{
    static const qdw_micro by_results[] = {COUNT_TO_8(NAME, pairs)};
    by_results[w->results - 1](w, tile);
}

/* --- windows where they lie ------------------------------------------------------------------- */

/* Four pixels of 16 channels as 16 lanes of four: quarters change places, then bytes in each. */
static inline __m512i by_channels(__m512i pixels)
{
    const __m512i quarters =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(quarters, pixels), bytes);
}

/* The quarters, one a pixel, that lie in a row of `width` pixels, of four from pixel `at` on. */
static inline __mmask16 quarters_inside(int64_t at, int64_t width)
{
    const int64_t begin = at < 0 ? min_i64(-at, 4) : 0;
    const int64_t end = at < width ? min_i64(width - at, 4) : 0;
    return (__mmask16)(((1u << 4 * end) - 1) & (0xffffu << 4 * begin));
}

/* Four pixels of rows of x, from `at` on, by channels; what lies beside the row is `outside`. */
struct pixels {
    __m512i outside, flip;
    int64_t offset; /* bytes */
    __mmask16 inside;
};

static inline void move_to(struct pixels *pixels, int64_t at, int64_t width)
{
    pixels->offset = at * QDW_C0;
    pixels->inside = quarters_inside(at, width);
}

static inline __m512i read_pixels(const struct pixels *pixels, const uint8_t *row)
{
    /* A number: where no quarter is read, the address may lie outside of the row's memory. */
    const uintptr_t from = (uintptr_t)row + (uintptr_t)pixels->offset;
    const __m512i v = _mm512_mask_loadu_epi32(pixels->outside, pixels->inside, (const void *)from);
    return by_channels(_mm512_xor_si512(v, pixels->flip));
}

/* Up to four columns of results of a row, from column x on. */
static inline __attribute__((always_inline)) void finish(const struct qdw_lines *l,
                                                         const struct qgemm_tile *tile,
                                                         __m512i acc[QDW_TILE], int row, int64_t x)
{
    uint8_t *dst = tile->dst + row * l->dst_line + x * tile->dst_row;
    uint8_t edge[QDW_TILE * QDW_C0 * 4];
    const bool is_whole = l->end - x >= QDW_TILE;
    qgemm_finish_avx512(tile, acc, is_whole ? dst : edge, 0, QDW_TILE, 0, 1);
    if (!is_whole)
        memcpy(dst, edge, (size_t)((l->end - x) * tile->dst_row));
}

/* Windows of k rows: each pixel that is read is multiplied for all results that it is a tap of. */
static inline __attribute__((always_inline)) void
sum_common(const struct qdw_lines *l, const struct qgemm_tile *tile, int k, int stride, int rows)
{
    const int quads = k / 4 + 1, shared = (quads * 4 - k + 1) / stride;
    struct pixels pixels = {_mm512_set1_epi8((char)l->beside[0]), _mm512_set1_epi8((char)l->flip),
                            0, 0};
    for (int64_t x = l->begin; x < l->end; x += QDW_TILE) {
        __m512i acc[QDW_TILE][QDW_TILE];
#pragma GCC unroll 4
        for (int o = 0; o < rows; o++)
#pragma GCC unroll 4
            for (int c = 0; c < QDW_TILE; c++)
                acc[o][c] = qgemm_start_avx512(tile, 0);
#pragma GCC unroll 2
        for (int q = 0; q < quads; q++)
#pragma GCC unroll 4
            for (int c = 0; c < QDW_TILE; c += shared) {
                move_to(&pixels, (x + c) * stride + 4 * q - l->p->pl, l->p->w);
#pragma GCC unroll 11
                for (int r = 0; r < (rows - 1) * stride + k; r++) {
                    const __m512i four = read_pixels(&pixels, l->in[r]);
#pragma GCC unroll 4
                    for (int o = 0; o < rows; o++) {
                        const int tap = r - o * stride;
                        if (tap < 0 || tap >= k)
                            continue;
                        const uint32_t *w = l->weights + (tap * quads + q) * shared * QDW_C0;
#pragma GCC unroll 4
                        for (int s = 0; s < shared; s++)
                            acc[o][c + s] = _mm512_dpbusd_epi32(acc[o][c + s], four,
                                                                _mm512_loadu_si512(w + s * QDW_C0));
                    }
                }
            }
#pragma GCC unroll 4
        for (int o = 0; o < rows; o++)
            finish(l, tile, acc[o], o, x);
    }
}

#define DEFINE_COMMON(k, stride, rows)                                                             \
    static void common_##k##_##stride##_##rows(const struct qdw_lines *l,                          \
                                               const struct qgemm_tile *tile)                      \
    {                                                                                              \
        sum_common(l, tile, k, stride, rows);                                                      \
    }
#define NAME_COMMON(k, stride, rows) common_##k##_##stride##_##rows,

COUNT_TO_4(DEFINE_COMMON, 3, 1)
COUNT_TO_4(DEFINE_COMMON, 3, 2)
COUNT_TO_4(DEFINE_COMMON, 5, 1)
COUNT_TO_4(DEFINE_COMMON, 5, 2)

/* Any other window, one row of results after the other. */
static void sum_any(const struct qdw_lines *l, const struct qgemm_tile *tile)
{
    const struct qdepthwise_params *p = l->p;
    const int64_t quads = ceil_div(p->kw, 4);
    struct pixels pixels = {_mm512_set1_epi8((char)l->beside[0]), _mm512_set1_epi8((char)l->flip),
                            0, 0};
    for (int o = 0; o < l->rows; o++)
        for (int64_t x = l->begin; x < l->end; x += QDW_TILE) {
            __m512i acc[QDW_TILE];
            for (int c = 0; c < QDW_TILE; c++)
                acc[c] = qgemm_start_avx512(tile, 0);
            for (int64_t q = 0; q < quads; q++)
#pragma GCC unroll 4
                for (int c = 0; c < QDW_TILE; c++) {
                    move_to(&pixels, (x + c) * p->sw + 4 * q - p->pl, p->w);
                    const uint32_t *w = l->weights + q * QDW_C0;
                    for (int64_t tap = 0; tap < p->kh; tap++, w += quads * QDW_C0)
                        acc[c] = _mm512_dpbusd_epi32(
                            acc[c], read_pixels(&pixels, l->in[o * p->sh + tap * p->dh]),
                            _mm512_loadu_si512(w));
                }
            finish(l, tile, acc, o, x);
        }
}

static void sum_lines(const struct qdw_lines *l, const struct qgemm_tile *tile)
{
    static const qdw_direct common[2][2][QDW_TILE] = {
        {{COUNT_TO_4(NAME_COMMON, 3, 1)}, {COUNT_TO_4(NAME_COMMON, 3, 2)}},
        {{COUNT_TO_4(NAME_COMMON, 5, 1)}, {COUNT_TO_4(NAME_COMMON, 5, 2)}},
    };
    if (qdw_is_common(l->p))
        common[l->p->kh == 5][l->p->sh == 2][l->rows - 1](l, tile);
    else
        sum_any(l, tile);
}

/* Weights less their zero points as bytes, and their sums; false if one does not fit. */
static bool difference(int64_t taps, const struct qdw_weights *w, uint8_t *to,
                       uint32_t sums[QDW_C0])
{
    const __m512i zeros = _mm512_loadu_si512(w->zeros), least = _mm512_set1_epi32(INT8_MIN);
    __m512i total = _mm512_setzero_si512(), wide = total;
    for (int64_t i = 0; i < taps; i++) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(w->w + i * QDW_C0));
        const __m512i words =
            w->is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
        const __m512i value = _mm512_sub_epi32(words, zeros);
        wide = _mm512_or_si512(wide, _mm512_sub_epi32(value, least));
        total = _mm512_add_epi32(total, value);
        _mm_storeu_si128((__m128i *)(void *)(to + i * QDW_C0), _mm512_cvtepi32_epi8(value));
    }
    if (_mm512_cmpgt_epu32_mask(wide, _mm512_set1_epi32(UINT8_MAX)) != 0)
        return false;
    _mm512_storeu_si512(sums, total);
    return true;
}

/* The taps of result `s` begin s strides further right. */
static enum qdw_form pack_weights(const struct qdepthwise_params *p, const struct qdw_weights *w,
                                  uint8_t *values, uint32_t *to, uint32_t sums[QDW_C0])
{
    const struct qdw_plan plan = qdw_plan(p);
    struct pixels taps = {_mm512_setzero_si512(), _mm512_setzero_si512(), 0, 0};
    if (!difference(p->kh * p->kw, w, values, sums))
        return QDW_PAIRS;
    for (int64_t y = 0; y < p->kh; y++, values += p->kw * QDW_C0)
        for (int64_t q = 0; q < plan.quads; q++)
            for (int64_t s = 0; s < plan.shared; s++, to += QDW_C0) {
                move_to(&taps, 4 * q - s * p->sw, p->kw);
                _mm512_storeu_si512(to, read_pixels(&taps, values));
            }
    return QDW_BYTES;
}

void qdepthwise_any_avx512vnni(const struct kernel_args *args)
{
    qdepthwise_items(
        args,
        &(struct qdw_isa){.pairs = sum_pairs, .direct = sum_lines, .pack_weights = pack_weights});
}
