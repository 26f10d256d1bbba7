/* qdepthwise in vectors of 256 bits: two of 8 channels, two taps in each lane, or three as bytes.
 */
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
            acc[r][0] = qgemm_add_products_avx2(acc[r][0], load(x), first_half);
            acc[r][1] = qgemm_add_products_avx2(acc[r][1], load(x + 8), second_half);
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

enum {
    MAX_PAIRS = 3, /* of words of taps in a row */
    MAX_STRIDE = 2,
    BYTE_TAPS = 3, /* rows and columns of windows that are summed by bytes */
};

/* What the sums of a block of channels begin with, and what finishes them. Sums lie as interleaving
 * leaves them, in words of two pixels as in bytes of three rows: channels 0 … 3 with 8 … 11 in one
 * vector, 4 … 7 with 12 … 15 in the other.
 */
struct block {
    __m256i start[2], zero;
    __m256 scale[2];
    bool is_bounded;
};

/* From channels 0 … 7 and 8 … 15 to that order, or back. */
static inline void swap_quarters(__m256i v[2])
{
    const __m256i first = v[0];
    v[0] = _mm256_permute2x128_si256(first, v[1], 0x20);
    v[1] = _mm256_permute2x128_si256(first, v[1], 0x31);
}

static inline struct block take_block(const struct qgemm_tile *t)
{
    __m256i start[2], scale[2];
    for (int h = 0; h < 2; h++) {
        start[h] = qgemm_start_avx2(t, 0, h);
        scale[h] = _mm256_castps_si256(_mm256_loadu_ps(t->columns->scale + 8 * h));
    }
    swap_quarters(start);
    swap_quarters(scale);
    return (struct block){
        .start = {start[0], start[1]},
        .zero = _mm256_set1_epi16((short)t->y_zero),
        .scale = {_mm256_castsi256_ps(scale[0]), _mm256_castsi256_ps(scale[1])},
        .is_bounded = t->columns->is_bounded,
    };
}

/* Sums as bytes, two results a vector: packing brings channels back into their order. */
static inline __attribute__((always_inline)) void finish_bytes(const struct block *b,
                                                               __m256i sums[QDW_TILE][2],
                                                               bool is_bounded, bool is_signed,
                                                               uint8_t *dst)
{
#pragma GCC unroll 4
    for (int c = 0; c < QDW_TILE; c += 2) {
        __m256i words[2];
        for (int i = 0; i < 2; i++)
            words[i] = _mm256_adds_epi16(
                _mm256_packs_epi32(qgemm_round_avx2(sums[c + i][0], b->scale[0], is_bounded),
                                   qgemm_round_avx2(sums[c + i][1], b->scale[1], is_bounded)),
                b->zero);
        swap_quarters(words);
        const __m256i bytes = is_signed ? _mm256_packs_epi16(words[0], words[1])
                                        : _mm256_packus_epi16(words[0], words[1]);
        _mm256_storeu_si256((__m256i *)(void *)(dst + c * QDW_C0), bytes);
    }
}

/* Sums as numbers of 32 bits; not inlined, so that elsewhere sums lie in registers alone. */
static __attribute__((noinline)) void finish_numbers(const struct qgemm_tile *tile,
                                                     __m256i sums[QDW_TILE][2], uint8_t *dst)
{
    for (int c = 0; c < QDW_TILE; c++)
        swap_quarters(sums[c]);
    qgemm_finish_avx2(tile, sums, dst, 0, QDW_TILE, 0, 1);
}

/* Four results of a row, from column x on; of a row of fewer, those. */
static inline __attribute__((always_inline)) void
finish(const struct qdw_lines *l, const struct qgemm_tile *tile, const struct block *b,
       __m256i sums[QDW_TILE][2], int row, int64_t x)
{
    uint8_t *dst = tile->dst + row * l->dst_line + x * tile->dst_row;
    uint8_t edge[QDW_TILE * QDW_C0 * 4];
    const bool is_whole = l->p->ow >= QDW_TILE;
    uint8_t *to = is_whole ? dst : edge;
    if (tile->result == QGEMM_U8 && b->is_bounded) {
        finish_bytes(b, sums, true, false, to);
    } else if (tile->result == QGEMM_U8) {
        finish_bytes(b, sums, false, false, to);
    } else if (tile->result == QGEMM_I8) {
        finish_bytes(b, sums, false, true, to);
    } else {
        __m256i all[QDW_TILE][2];
#pragma GCC unroll 4
        for (int c = 0; c < QDW_TILE; c++)
            for (int h = 0; h < 2; h++)
                all[c][h] = sums[c][h];
        finish_numbers(tile, all, to);
    }
    if (!is_whole)
        memcpy(dst, edge, (size_t)((l->p->ow - x) * tile->dst_row));
}

static inline __attribute__((always_inline)) void begin(const struct block *b,
                                                        __m256i sums[QDW_TILE][2])
{
#pragma GCC unroll 4
    for (int c = 0; c < QDW_TILE; c++)
        for (int h = 0; h < 2; h++)
            sums[c][h] = b->start[h];
}

static inline __m128i load_pixel(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

static inline __m256i words_of(__m128i bytes, bool is_signed)
{
    return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

/* Pixel `at` of a row of x, or what lies beside it. */
static inline __attribute__((always_inline)) __m128i pixel_at(const struct qdw_lines *l,
                                                              const uint8_t *row, int64_t at,
                                                              bool is_inside)
{
    return load_pixel(is_inside ? row + at * QDW_C0 : pixel(row, at, l->p->w, l->beside));
}

/* By words: neighbours are interleaved once for all windows that have them as a pair of taps. */
static inline __attribute__((always_inline)) void sum_words(const struct qdw_lines *l, int row,
                                                            int64_t at, int pairs, int stride,
                                                            bool is_signed, bool is_inside,
                                                            __m256i sums[QDW_TILE][2])
{
    const uint32_t *weights = l->weights;
    for (int64_t y = 0; y < l->p->kh; y++, weights += pairs * QDW_C0) {
        const uint8_t *from = l->in[row * l->p->sh + y * l->p->dh];
        __m256i second = words_of(pixel_at(l, from, at, is_inside), is_signed);
#pragma GCC unroll 11
        for (int i = 0; i < (QDW_TILE - 1) * stride + 2 * pairs - 1; i++) {
            const __m256i first = second;
            second = words_of(pixel_at(l, from, at + i + 1, is_inside), is_signed);
            const __m256i both[2] = {_mm256_unpacklo_epi16(first, second),
                                     _mm256_unpackhi_epi16(first, second)};
#pragma GCC unroll 4
            for (int c = 0; c < QDW_TILE; c++) {
                const int tap = i - c * stride;
                if (tap < 0 || tap % 2 != 0 || tap / 2 >= pairs)
                    continue;
                const uint32_t *w = weights + tap / 2 * QDW_C0;
                sums[c][0] = qgemm_add_products_avx2(sums[c][0], both[0], load(w));
                sums[c][1] = qgemm_add_products_avx2(sums[c][1], both[1], load(w + 8));
            }
        }
    }
}

/* By bytes: pixels of three rows, and a zero, are interleaved once for all windows that have them
 * in a column.
 */
static inline __attribute__((always_inline)) void sum_bytes(const struct qdw_lines *l, int row,
                                                            int64_t at, int stride, bool is_inside,
                                                            __m256i sums[QDW_TILE][2])
{
    const __m256i ones = _mm256_set1_epi16(1);
    const uint8_t *const *in = l->in + row * l->p->sh;
#pragma GCC unroll 9
    for (int i = 0; i < (QDW_TILE - 1) * stride + BYTE_TAPS; i++) {
        __m256i rows[BYTE_TAPS];
#pragma GCC unroll 3
        for (int y = 0; y < BYTE_TAPS; y++)
            rows[y] = words_of(pixel_at(l, in[y * l->p->dh], at + i, is_inside), false);
        const __m256i both = _mm256_or_si256(rows[0], _mm256_slli_epi16(rows[1], 8));
        const __m256i four[2] = {_mm256_unpacklo_epi16(both, rows[2]),
                                 _mm256_unpackhi_epi16(both, rows[2])};
#pragma GCC unroll 4
        for (int c = 0; c < QDW_TILE; c++) {
            const int tap = i - c * stride;
            if (tap < 0 || tap >= BYTE_TAPS)
                continue;
            const uint32_t *w = l->weights + tap * QDW_C0;
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++)
                sums[c][h] = qgemm_add_bytes_avx2(sums[c][h], four[h], w + 8 * h, ones);
        }
    }
}

/* The last tile of a row ends with it, where it fits, and repeats results of the one before. */
#define DEFINE_LINES(name, stride, pixels, sum, ...)                                               \
    static void name(const struct qdw_lines *l, const struct qgemm_tile *tile)                     \
    {                                                                                              \
        const struct block b = take_block(tile);                                                   \
        const int64_t last = l->p->ow < QDW_TILE ? 0 : l->p->ow - QDW_TILE;                        \
        for (int row = 0; row < l->rows; row++)                                                    \
            for (int64_t column = l->begin; column < l->end; column += QDW_TILE) {                 \
                const int64_t x = min_i64(column, last), at = x * (stride) - l->p->pl;             \
                __m256i sums[QDW_TILE][2];                                                         \
                begin(&b, sums);                                                                   \
                if (at >= 0 && at + (pixels) + (QDW_TILE - 1) * (stride) <= l->p->w)               \
                    sum(l, row, at, __VA_ARGS__, true, sums);                                      \
                else                                                                               \
                    sum(l, row, at, __VA_ARGS__, false, sums);                                     \
                finish(l, tile, &b, sums, row, x);                                                 \
            }                                                                                      \
    }

#define DEFINE_WORDS(pairs, stride, is_signed)                                                     \
    DEFINE_LINES(words_##pairs##_##stride##_##is_signed, stride, 2 * (pairs), sum_words, pairs,    \
                 stride, is_signed)
#define DEFINE_BYTES(stride) DEFINE_LINES(bytes_##stride, stride, BYTE_TAPS, sum_bytes, stride)
#define NAME_BOTH(pairs, stride) {words_##pairs##_##stride##_0, words_##pairs##_##stride##_1}

DEFINE_WORDS(2, 1, 0)
DEFINE_WORDS(2, 1, 1)
DEFINE_WORDS(2, 2, 0)
DEFINE_WORDS(2, 2, 1)
DEFINE_WORDS(3, 1, 0)
DEFINE_WORDS(3, 1, 1)
DEFINE_WORDS(3, 2, 0)
DEFINE_WORDS(3, 2, 1)
DEFINE_BYTES(1)
DEFINE_BYTES(2)

static void sum_lines(const struct qdw_lines *l, const struct qgemm_tile *tile)
{
    static const qdw_direct words[2][MAX_STRIDE][2] = {
        {NAME_BOTH(2, 1), NAME_BOTH(2, 2)},
        {NAME_BOTH(3, 1), NAME_BOTH(3, 2)},
    };
    static const qdw_direct bytes[MAX_STRIDE] = {bytes_1, bytes_2};
    if (l->form == QDW_BYTES)
        bytes[l->p->sw - 1](l, tile);
    else
        words[l->p->kw > 4][l->p->sw - 1][l->p->x_signed](l, tile);
}

/* --- their weights ---------------------------------------------------------------------------- */

/* Weights of a tap less their zero points, as words; none beyond a row. */
static inline __m256i weights_of(const struct qdepthwise_params *p, const struct qdw_weights *w,
                                 int64_t y, int64_t x)
{
    if (x >= p->kw)
        return _mm256_setzero_si256();
    __m256i zeros[2] = {qgemm_load_avx2(w->zeros), qgemm_load_avx2(w->zeros + 8)};
    swap_quarters(zeros);
    const __m128i bytes = load_pixel(w->w + (y * p->kw + x) * QDW_C0);
    return _mm256_sub_epi16(words_of(bytes, w->is_signed), _mm256_packs_epi32(zeros[0], zeros[1]));
}

static void store_sums(__m256i total[2], uint32_t sums[QDW_C0])
{
    swap_quarters(total);
    for (int h = 0; h < 2; h++)
        _mm256_storeu_si256((__m256i *)(void *)(sums + 8 * h), total[h]);
}

/* As pairs of words, which fit always. */
static void pack_words(const struct qdepthwise_params *p, const struct qdw_weights *w, uint32_t *to,
                       uint32_t sums[QDW_C0])
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i total[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int64_t y = 0; y < p->kh; y++)
        for (int64_t x = 0; x < p->kw; x += 2, to += QDW_C0) {
            const __m256i low = weights_of(p, w, y, x), high = weights_of(p, w, y, x + 1);
            const __m256i both[2] = {_mm256_unpacklo_epi16(low, high),
                                     _mm256_unpackhi_epi16(low, high)};
            for (int h = 0; h < 2; h++) {
                total[h] = _mm256_add_epi32(total[h], _mm256_madd_epi16(both[h], ones));
                _mm256_storeu_si256((__m256i *)(void *)(to + 8 * h), both[h]);
            }
        }
    store_sums(total, sums);
}

/* Words that are none of low … high. */
static inline __m256i beyond(__m256i words, int16_t low, int16_t high)
{
    return _mm256_or_si256(_mm256_cmpgt_epi16(_mm256_set1_epi16(low), words),
                           _mm256_cmpgt_epi16(words, _mm256_set1_epi16(high)));
}

/* Pairs of weights that do not fit into bytes, or whose products with bytes of x may not fit into
 * 16 bits: 255 · 128 does, 255 · 129 does not.
 */
static inline __m256i beyond_bytes(__m256i first, __m256i second)
{
    const __m256i zero = _mm256_setzero_si256();
    const __m256i positive =
        _mm256_add_epi16(_mm256_max_epi16(first, zero), _mm256_max_epi16(second, zero));
    const __m256i negative =
        _mm256_add_epi16(_mm256_min_epi16(first, zero), _mm256_min_epi16(second, zero));
    const __m256i largest = _mm256_max_epi16(first, second);
    return _mm256_or_si256(beyond(largest, INT16_MIN, INT8_MAX),
                           _mm256_or_si256(beyond(positive, 0, 128), beyond(negative, -128, 0)));
}

/* As bytes of three rows and a zero; false if they do not fit. */
static bool pack_bytes(const struct qdepthwise_params *p, const struct qdw_weights *w, uint32_t *to,
                       uint32_t sums[QDW_C0])
{
    const __m256i low_byte = _mm256_set1_epi16(UINT8_MAX);
    __m256i total[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int64_t x = 0; x < BYTE_TAPS; x++, to += QDW_C0) {
        const __m256i first = weights_of(p, w, 0, x), second = weights_of(p, w, 1, x);
        const __m256i third = weights_of(p, w, 2, x);
        const __m256i unfit =
            _mm256_or_si256(beyond_bytes(first, second), beyond(third, INT8_MIN, INT8_MAX));
        if (!_mm256_testz_si256(unfit, unfit))
            return false;
        const __m256i both =
            _mm256_or_si256(_mm256_and_si256(first, low_byte), _mm256_slli_epi16(second, 8));
        const __m256i one = _mm256_and_si256(third, low_byte);
        const __m256i four[2] = {_mm256_unpacklo_epi16(both, one),
                                 _mm256_unpackhi_epi16(both, one)};
        for (int h = 0; h < 2; h++) {
            total[h] =
                qgemm_add_bytes_avx2(total[h], _mm256_set1_epi8(1), four + h, _mm256_set1_epi16(1));
            _mm256_storeu_si256((__m256i *)(void *)(to + 8 * h), four[h]);
        }
    }
    store_sums(total, sums);
    return true;
}

static enum qdw_form pack_weights(const struct qdepthwise_params *p, const struct qdw_weights *w,
                                  uint8_t *values, uint32_t *to, uint32_t sums[QDW_C0])
{
    (void)values;
    if (p->kw <= 2 || p->kw > 2 * MAX_PAIRS || p->sw > MAX_STRIDE)
        return QDW_PAIRS;
    if (p->kh == BYTE_TAPS && p->kw == BYTE_TAPS && p->x_signed != 1 && pack_bytes(p, w, to, sums))
        return QDW_BYTES;
    pack_words(p, w, to, sums);
    return QDW_WORDS;
}

void FOR_ISA(qdepthwise_any)(const struct kernel_args *args)
{
    qdepthwise_items(args, &(struct qdw_isa){.pairs = micro,
                                             .direct = sum_lines,
                                             .pack_weights = pack_weights,
                                             .reads_signed = true});
}
