/* qgemm on AVX2: up to 6 rows by four panels, one after the other.
 *
 * vpmaddubsw multiplies unsigned bytes by signed ones and adds two products in 16 bits, where they
 * may saturate. So a panel is rewritten as a schedule of its steps before many rows of x pass over
 * it: a step whose weights stay within 16 bits whatever x is goes to vpmaddubsw, two of them are
 * added before they are widened where that stays within 16 bits as well, and the weights of any
 * other step are split into halves. Weights of trained networks are small mostly. FBGEMM keeps
 * large ones out of 16-bit sums likewise (Khudia et al., 2021, arXiv:2101.05615).
 *
 * Where most weights are large, and for a few rows of x, bytes are widened and go to vpmaddwd.
 */
#include "quant/qgemm_finish_avx2.h"
#include "simd/count_up.h"

enum {
    MAX_ROWS = 6,
    HALF = QGEMM_BLOCK / 2, /* bytes of 8 columns of a panel's row */
    FOUR = 4 * QGEMM_K0,    /* elements of four steps of a row of x */
    PAIR = 2 * QGEMM_PANEL, /* words of a panel that two elements of k take */
    NARROW_ROWS = 3,
    QUARTERS = 4,
};

/* --- panels as schedules ---------------------------------------------------------------------- */

/* Weights of a step, 8 columns each, and the sums of those above and of those below 0, as bytes, in
 * each 16 bits that vpmaddubsw adds up.
 */
struct step {
    __m256i w[2], above, below;
};

static inline __m256i load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

/* Sums of two unsigned bytes each, up to 255, in the order in which vpackuswb leaves them. */
static inline __m256i sum_two(__m256i low, __m256i high)
{
    const __m256i ones = _mm256_set1_epi8(1);
    return _mm256_packus_epi16(_mm256_maddubs_epi16(low, ones), _mm256_maddubs_epi16(high, ones));
}

static inline struct step load_step(const uint8_t *panel)
{
    const __m256i zero = _mm256_setzero_si256(), w[2] = {load(panel), load(panel + HALF)};
    const __m256i above[2] = {_mm256_max_epi8(w[0], zero), _mm256_max_epi8(w[1], zero)};
    return (struct step){
        .w = {w[0], w[1]},
        .above = sum_two(above[0], above[1]),
        .below = sum_two(_mm256_sub_epi8(above[0], w[0]), _mm256_sub_epi8(above[1], w[1])),
    };
}

/* True if no unsigned bytes times these weights leave 16 bits: 255 · 128 does not. */
static inline bool fits(__m256i above, __m256i below)
{
    const __m256i most = _mm256_set1_epi8((char)128);
    const __m256i beyond = _mm256_subs_epu8(_mm256_max_epu8(above, below), most);
    return _mm256_testz_si256(beyond, beyond) != 0;
}

static inline bool fit_together(const struct step *a, const struct step *b)
{
    return fits(_mm256_adds_epu8(a->above, b->above), _mm256_adds_epu8(a->below, b->below));
}

/* w / 2, rounded down. */
static inline __m256i half_of(__m256i w)
{
    const __m256i top = _mm256_set1_epi8(-128), low = _mm256_set1_epi8(127);
    const __m256i halves = _mm256_and_si256(_mm256_srli_epi16(_mm256_xor_si256(w, top), 1), low);
    return _mm256_sub_epi8(halves, _mm256_set1_epi8(64));
}

static inline void put(struct qgemm_stretch *to, int at, int step, const __m256i w[2])
{
    to->at[at] = (uint8_t)step;
    for (int h = 0; h < 2; h++)
        _mm256_storeu_si256((__m256i *)(void *)(to->w[at] + h * HALF), w[h]);
}

/* Each four columns of a panel's row, [4][4] bytes, become parts of two rows [16][2] of words. */
static void widen(const uint8_t *panel, int steps, int16_t *to)
{
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (int k = 0; k < steps; k++, panel += QGEMM_BLOCK, to += 2 * PAIR)
        for (int q = 0; q < QUARTERS; q++) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(panel + q * 16));
            const __m256i words = _mm256_permutevar8x32_epi32(_mm256_cvtepi8_epi16(bytes), order);
            _mm_storeu_si128((__m128i *)(void *)(to + q * 8), _mm256_castsi256_si128(words));
            _mm_storeu_si128((__m128i *)(void *)(to + PAIR + q * 8),
                             _mm256_extracti128_si256(words, 1));
        }
}

/* Steps that fit together with the one before become a pair. One that does not fit alone becomes
 * two, each with half of its weights; where more than a third are such, words take less time.
 */
static void schedule_stretch(const uint8_t *panel, int steps, struct qgemm_stretch *to)
{
    const int most_split = steps / 3;
    int paired = 0, single = QGEMM_SCHEDULED, split = 0, last = -1; /* waits for another step */
    struct step before = {0};
    for (int k = 0; k < steps; k++) {
        const struct step now = load_step(panel + k * QGEMM_BLOCK);
        if (!fits(now.above, now.below)) {
            if (++split > most_split)
                break;
            const __m256i halves[2] = {half_of(now.w[0]), half_of(now.w[1])};
            const __m256i rest[2] = {_mm256_sub_epi8(now.w[0], halves[0]),
                                     _mm256_sub_epi8(now.w[1], halves[1])};
            put(to, --single, k, halves);
            put(to, --single, k, rest);
        } else if (last >= 0 && fit_together(&before, &now)) {
            put(to, paired++, last, before.w);
            put(to, paired++, k, now.w);
            last = -1;
        } else {
            if (last >= 0)
                put(to, --single, last, before.w);
            last = k;
            before = now;
        }
    }
    if (last >= 0)
        put(to, --single, last, before.w);
    to->paired = paired;
    to->single = single;
    to->is_wide = split > most_split;
    if (to->is_wide)
        widen(panel, steps, to->words);
}

static void schedule(const struct kernel_args *args, const uint8_t *panel, int64_t k1,
                     struct qgemm_stretch *to)
{
    struct atc_meter meter = {.args = args};
    for (int64_t k = 0; k < k1 && !atc_spend(&meter, QGEMM_STRETCH * QGEMM_K0); k += QGEMM_STRETCH)
        schedule_stretch(panel + k * QGEMM_BLOCK, (int)min_i64(QGEMM_STRETCH, k1 - k), to++);
}

/* --- many rows of x by schedules -------------------------------------------------------------- */

/* Rows of unsigned bytes of x, and where each step of a stretch lies in them. */
struct x_rows {
    const uint8_t *first;
    int64_t row; /* bytes from one row to the next */
    const int64_t *steps;
};

static inline __m128i load_4(const uint8_t *x)
{
    int32_t bytes;
    memcpy(&bytes, x, sizeof bytes);
    return _mm_cvtsi32_si128(bytes);
}

/* Steps of rows of x as words, [⌈steps / 4⌉][MAX_ROWS][16]: a displacement of one byte reaches all
 * rows, which makes instructions short enough to be fetched in time. Four steps of k lie side by
 * side mostly.
 */
static inline void widen_rows(const struct x_rows *x, int64_t steps, int rows, int16_t *to)
{
    for (int64_t k = 0; k < steps;) {
        const uint8_t *from = x->first + x->steps[k];
        int16_t *into = to + k / 4 * (MAX_ROWS * FOUR) + k % 4 * QGEMM_K0;
        const bool is_four = k % 4 == 0 && k + 4 <= steps && qgemm_side_by_side(x->steps + k);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++, from += x->row, into += FOUR)
            if (is_four)
                _mm256_storeu_si256(
                    (__m256i *)(void *)into,
                    _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from)));
            else
                _mm_storel_epi64((__m128i *)(void *)into, _mm_cvtepu8_epi16(load_4(from)));
        k += is_four ? 4 : 1;
    }
}

/* Four bytes, or two words, in all lanes. */
static inline __m256i everywhere(const void *at)
{
    int32_t four;
    memcpy(&four, at, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Hides where a pointer to weights points to, so that each row's instructions read them from
 * memory: the compiler would load them into registers that the sums need.
 */
#define HIDE(pointer) __asm__("" : "+r"(pointer))

/* A stretch of a panel, and what its sums begin with and become. */
struct part {
    const struct qgemm_tile *tile;
    int block, blocks;
    const struct qgemm_stretch *stretch;
    int64_t steps;
    bool is_first, is_last; /* of the panel's stretches */
    __m256i (*sums)[2];     /* of rows, between two stretches */
    struct x_rows x;
    const int16_t *words; /* of x, for a stretch of words */
};

static inline __attribute__((always_inline)) void begin_sums(const struct part *p, int rows,
                                                             __m256i acc[MAX_ROWS][2])
{
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            acc[i][h] = p->is_first ? qgemm_start_avx2(p->tile, p->block, h) : p->sums[i][h];
}

static inline __attribute__((always_inline)) void end_sums(const struct part *p, int rows,
                                                           __m256i acc[MAX_ROWS][2])
{
    const struct qgemm_tile *t = p->tile;
    if (p->is_last) {
        qgemm_finish_avx2(t, acc, t->dst + p->block * t->dst_panel, 0, rows, p->block, p->blocks);
        return;
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            p->sums[i][h] = acc[i][h];
}

/* Four bytes of row i, of which the first and the fourth are `first` and `fourth`. */
static inline __m256i row_of(const uint8_t *first, const uint8_t *fourth, int64_t row, int i)
{
    return everywhere(i < 3 ? first + i * row : fourth + (i - 3) * row);
}

/* Adds the products of a stretch's bytes: of steps two by two, then of single ones. */
static inline __attribute__((always_inline)) void add_bytes(const struct part *p, int rows)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i acc[MAX_ROWS][2];
    begin_sums(p, rows, acc);
    const struct qgemm_stretch *s = p->stretch;
    const uint8_t *at = s->at;
    const int8_t *w = s->w[0];
    const int64_t row = p->x.row, *steps = p->x.steps;
    const uint8_t *first = p->x.first, *fourth = rows > 3 ? first + 3 * row : first;
#pragma GCC unroll 1
    for (const int8_t *end = w + s->paired * QGEMM_BLOCK; w != end; w += 2 * QGEMM_BLOCK, at += 2) {
        const int64_t one = steps[at[0]], other = steps[at[1]];
        const uint8_t *a1 = first + one, *a4 = fourth + one;
        const uint8_t *b1 = first + other, *b4 = fourth + other;
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            HIDE(w);
            const __m256i a = row_of(a1, a4, row, i), b = row_of(b1, b4, row, i);
            const __m256i low = _mm256_add_epi16(_mm256_maddubs_epi16(a, load(w)),
                                                 _mm256_maddubs_epi16(b, load(w + QGEMM_BLOCK)));
            const __m256i high =
                _mm256_add_epi16(_mm256_maddubs_epi16(a, load(w + HALF)),
                                 _mm256_maddubs_epi16(b, load(w + QGEMM_BLOCK + HALF)));
            acc[i][0] = qgemm_add_products_avx2(acc[i][0], low, ones);
            acc[i][1] = qgemm_add_products_avx2(acc[i][1], high, ones);
        }
    }
    at = s->at + s->single;
    w = s->w[0] + s->single * QGEMM_BLOCK;
#pragma GCC unroll 1
    for (const int8_t *end = s->w[0] + sizeof s->w; w != end; w += QGEMM_BLOCK, at++) {
        const int64_t one = steps[*at];
        const uint8_t *a1 = first + one, *a4 = fourth + one;
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            HIDE(w);
            const __m256i a = row_of(a1, a4, row, i);
            acc[i][0] = qgemm_add_products_avx2(acc[i][0], _mm256_maddubs_epi16(a, load(w)), ones);
            acc[i][1] =
                qgemm_add_products_avx2(acc[i][1], _mm256_maddubs_epi16(a, load(w + HALF)), ones);
        }
    }
    end_sums(p, rows, acc);
}

/* Adds the products of a stretch's words. */
static inline __attribute__((always_inline)) void add_words(const struct part *p, int rows)
{
    __m256i acc[MAX_ROWS][2];
    begin_sums(p, rows, acc);
    const int16_t *w = p->stretch->words, *x = p->words;
    for (int64_t left = p->steps; left > 0; left -= 4, x += MAX_ROWS * FOUR) {
        const int16_t *at = x + 3 * FOUR, *end = at + min_i64(left, 4) * QGEMM_K0;
#pragma GCC unroll 1
        for (; at != end; at += 2, w += PAIR) {
            const __m256i low = load(w), high = load(w + PAIR / 2);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                const __m256i two = everywhere(at + (i - 3) * FOUR);
                acc[i][0] = qgemm_add_products_avx2(acc[i][0], two, low);
                acc[i][1] = qgemm_add_products_avx2(acc[i][1], two, high);
            }
        }
    }
    end_sums(p, rows, acc);
}

/* One function a number of rows: apart from all others, the compiler keeps its sums in registers.
 */
#define DEFINE(unused, rows)                                                                       \
    static __attribute__((noinline)) void bytes_##rows(const struct part *p)                       \
    {                                                                                              \
        add_bytes(p, rows);                                                                        \
    }                                                                                              \
    static __attribute__((noinline)) void words_##rows(const struct part *p)                       \
    {                                                                                              \
        add_words(p, rows);                                                                        \
    }
COUNT_TO_6(DEFINE, )

#define BYTES(unused, rows) bytes_##rows,
#define WORDS(unused, rows) words_##rows,
static void (*const bytes_by_rows[])(const struct part *) = {COUNT_TO_6(BYTES, )};
static void (*const words_by_rows[])(const struct part *) = {COUNT_TO_6(WORDS, )};

/* Bytes of x are read where they lie, words from a copy for all panels. */
static void scheduled(const struct qgemm_tile *t, int blocks, int rows)
{
    int16_t words[QGEMM_STRETCH / 4 * MAX_ROWS * FOUR];
    __m256i sums[QGEMM_MAX_BLOCKS][MAX_ROWS][2];
    const int64_t panel = qgemm_stretches(t->k1);
    struct part part = {.tile = t, .blocks = blocks, .words = words};
    const struct qgemm_stretch *stretch = t->schedule;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k += QGEMM_STRETCH, stretch++) {
            part.x = (struct x_rows){t->x[0], t->x_row, t->steps + k};
            part.steps = min_i64(QGEMM_STRETCH, piece.end - k);
            part.is_first = k == 0;
            part.is_last = k + part.steps == t->k1;
            bool is_widened = false;
            for (int b = 0; b < blocks; b++) {
                part.block = b;
                part.sums = sums[b];
                part.stretch = stretch + b * panel;
                if (!part.stretch->is_wide) {
                    bytes_by_rows[rows - 1](&part);
                    continue;
                }
                if (!is_widened)
                    widen_rows(&part.x, part.steps, rows, words);
                is_widened = true;
                words_by_rows[rows - 1](&part);
            }
        }
}

/* --- few rows of x ---------------------------------------------------------------------------- */

/* Four bytes of x as words, in both halves. */
static inline __m256i four_words(const uint8_t *x, __m128i flip)
{
    return _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_xor_si128(load_4(x), flip)));
}

/* Up to 3 rows, whose bytes are widened as they are multiplied, as are those of w. */
static inline __attribute__((always_inline)) void
narrow_micro(const struct qgemm_tile *t, int block, int blocks, int first, int rows)
{
    /* Of four columns each: the sums of steps 0 and 1, and of steps 2 and 3, side by side. */
    __m256i acc[NARROW_ROWS][QUARTERS];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int q = 0; q < QUARTERS; q++)
            acc[i][q] = _mm256_setzero_si256();
    const uint8_t *w = t->w + block * t->w_panel;
    const int64_t x_row = t->x_row, *steps = t->steps;
    const __m128i flip = _mm_cvtsi32_si128((int32_t)t->x_flip);
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK) {
            const uint8_t *x = t->x[0] + steps[k] + first * x_row;
            __m256i words[NARROW_ROWS];
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++)
                words[i] = four_words(x + i * x_row, flip);
#pragma GCC unroll 4
            for (int q = 0; q < QUARTERS; q++) {
                const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(w + q * 16));
                const __m256i columns = _mm256_cvtepi8_epi16(bytes);
#pragma GCC unroll 3
                for (int i = 0; i < rows; i++)
                    acc[i][q] = _mm256_add_epi32(acc[i][q], _mm256_madd_epi16(words[i], columns));
            }
        }
    __m256i sums[NARROW_ROWS][2];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
        for (int h = 0; h < 2; h++)
            sums[i][h] =
                _mm256_add_epi32(qgemm_start_avx2(t, block, h),
                                 _mm256_permute4x64_epi64(
                                     _mm256_hadd_epi32(acc[i][2 * h], acc[i][2 * h + 1]), 0xd8));
    qgemm_finish_avx2(t, sums, t->dst + first * t->dst_row + block * t->dst_panel, first, rows,
                      block, blocks);
}

static void narrow(const struct qgemm_tile *t, int blocks)
{
    const int rows = (int)t->rows;
    for (int b = 0; b < blocks; b++) {
        int i = 0;
        for (; i + NARROW_ROWS <= rows; i += NARROW_ROWS)
            narrow_micro(t, b, blocks, i, NARROW_ROWS);
        if (rows - i == 2)
            narrow_micro(t, b, blocks, i, 2);
        if (rows - i == 1)
            narrow_micro(t, b, blocks, i, 1);
    }
}

#define DEFINE_MICRO(blocks, rows)                                                                 \
    static void micro_##blocks##_##rows(const struct qgemm_tile *t)                                \
    {                                                                                              \
        if (t->schedule == NULL)                                                                   \
            narrow(t, blocks);                                                                     \
        else                                                                                       \
            scheduled(t, blocks, rows);                                                            \
    }
#define NAME(blocks, rows) micro_##blocks##_##rows,

COUNT_TO_6(DEFINE_MICRO, 1)
COUNT_TO_6(DEFINE_MICRO, 2)
COUNT_TO_6(DEFINE_MICRO, 3)
COUNT_TO_6(DEFINE_MICRO, 4)

void qgemm_any_avx2(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {COUNT_TO_6(NAME, 1) COUNT_TO_6(NAME, 2) COUNT_TO_6(NAME, 3)
                                            COUNT_TO_6(NAME, 4)};
    qgemm_drive(args, &(struct qgemm_isa){.max_blocks = QGEMM_MAX_BLOCKS,
                                          .max_rows = MAX_ROWS,
                                          .row_step = 1,
                                          .micro = table,
                                          .schedule = schedule});
}
