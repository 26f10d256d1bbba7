/* qgemm on AVX2: up to 3 rows by two panels.
 *
 * vpmaddubsw multiplies unsigned bytes by signed ones and adds two products in 16 bits, where they
 * may saturate. So the steps of panels are sorted before many rows of x pass over them: a step
 * whose products stay within 16 bits whatever x is goes to vpmaddubsw, two of them are added before
 * they are widened where that stays within 16 bits as well, and any other is widened first and goes
 * to vpmaddwd. Weights of trained networks are small mostly. FBGEMM keeps large ones out of 16-bit
 * sums likewise (Khudia et al., 2021, arXiv:2101.05615). For a few rows of x, all are widened.
 *
 * Each weight is an operand in memory of one instruction, and steps of four lie at fixed distances:
 * no instruction but the products, their sums and one broadcast a row of x.
 */
#include "quant/qgemm_tiles_avx2.h"
#include "quant/qgemm_wide_avx2.h"
#include "simd/count_up.h"

enum {
    MAX_ROWS = 3, /* by four registers of columns: the fewest instructions a product */
    MAX_BLOCKS = QGEMM_SCHEDULED,
};

/* --- schedules -------------------------------------------------------------------------------- */

/* Sums of two unsigned bytes each, up to 255. */
static inline __m256i sum_two(__m256i low, __m256i high)
{
    const __m256i ones = _mm256_set1_epi8(1);
    return _mm256_packus_epi16(_mm256_maddubs_epi16(low, ones), _mm256_maddubs_epi16(high, ones));
}

/* The sums of a step's weights above and of those below 0, as bytes, in each 16 bits that
 * vpmaddubsw adds up.
 */
static inline void sum_weights(const uint8_t *weights, __m256i *above, __m256i *below)
{
    const __m256i w[2] = {qgemm_load_avx2(weights), qgemm_load_avx2(weights + QGEMM_HALF)},
                  zero = _mm256_setzero_si256();
    const __m256i high[2] = {_mm256_max_epi8(w[0], zero), _mm256_max_epi8(w[1], zero)};
    *above = sum_two(high[0], high[1]);
    *below = sum_two(_mm256_sub_epi8(high[0], w[0]), _mm256_sub_epi8(high[1], w[1]));
}

/* True if no unsigned bytes times weights with such sums leave 16 bits: 255 · 128 does not. */
static inline bool fit(__m256i sums)
{
    const __m256i beyond = _mm256_subs_epu8(sums, _mm256_set1_epi8((char)128));
    return _mm256_testz_si256(beyond, beyond) != 0;
}

/* Sorts `count` steps from k on, one or four that lie side by side in x. */
static inline __attribute__((always_inline)) void sort_steps(const struct qgemm_panels *w,
                                                             int blocks, int64_t k, int count,
                                                             struct qgemm_schedule *to)
{
    __m256i alone[QGEMM_QUAD], two[QGEMM_QUAD / 2], all = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int i = 0; i < count; i++)
        alone[i] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int i = 0; i < count / 2; i++)
        two[i] = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++) {
        __m256i above[QGEMM_QUAD], below[QGEMM_QUAD];
#pragma GCC unroll 4
        for (int i = 0; i < count; i++) {
            sum_weights(w->w + b * w->w_panel + (k + i) * QGEMM_BLOCK, above + i, below + i);
            alone[i] = _mm256_max_epu8(alone[i], _mm256_max_epu8(above[i], below[i]));
            all = _mm256_max_epu8(all, alone[i]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < count / 2; i++)
            two[i] = _mm256_max_epu8(
                two[i], _mm256_max_epu8(_mm256_adds_epu8(above[2 * i], above[2 * i + 1]),
                                        _mm256_adds_epu8(below[2 * i], below[2 * i + 1])));
    }
    if (count < QGEMM_QUAD || !fit(all))
        for (int i = 0; i < count; i++)
            to->at[fit(alone[i]) ? to->kinds.singles_end++ : --to->kinds.wide] = (uint16_t)(k + i);
    else if (fit(_mm256_max_epu8(two[0], two[1])))
        to->at[to->kinds.pairs_end++] = (uint16_t)k;
    else
        to->at[--to->kinds.fours] = (uint16_t)k;
}

static inline __attribute__((always_inline)) void
schedule_panels(const struct qgemm_panels *w, int blocks, struct qgemm_schedule *to)
{
    const int32_t quads = (int32_t)(w->k1 / QGEMM_QUAD), end = quads + (int32_t)w->k1;
    to->kinds = (struct qgemm_kinds){
        .fours = quads, .singles = quads, .singles_end = quads, .wide = end, .wide_end = end};
    for (int64_t k = 0; k < w->k1;)
        if (k + QGEMM_QUAD <= w->k1 && qgemm_side_by_side(w->steps + k)) {
            sort_steps(w, blocks, k, QGEMM_QUAD, to);
            k += QGEMM_QUAD;
        } else {
            sort_steps(w, blocks, k++, 1, to);
        }
    to->is_wide = 3 * (to->kinds.wide_end - to->kinds.wide) > w->k1;
}

static void schedule(const struct qgemm_panels *w, struct qgemm_schedule *to)
{
    if (w->blocks == 2)
        schedule_panels(w, 2, to);
    else
        schedule_panels(w, 1, to);
}

/* --- products --------------------------------------------------------------------------------- */

/* Hides where a pointer to weights points to, so that each row's instructions read them from
 * memory: the compiler would load them into registers that the sums need.
 */
#define HIDE(pointer) __asm__("" : "+r"(pointer))

/* Adds the products of a step whose weights fit, or of two side by side whose weights fit together.
 * It lies at `step` in rows of x, and at w in the first panel.
 */
static inline __attribute__((always_inline)) void add_bytes(qgemm_sums_avx2 acc, int blocks,
                                                            int rows, const struct qgemm_tile *t,
                                                            const uint8_t *const x[], int64_t step,
                                                            const uint8_t *w, bool is_pair)
{
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++) {
        const __m256i a = qgemm_broadcast_avx2(x[i] + step);
        const __m256i b = is_pair ? qgemm_broadcast_avx2(x[i] + step + QGEMM_K0) : a;
        HIDE(w);
#pragma GCC unroll 4
        for (int j = 0; j < 2 * blocks; j++) {
            const int64_t at = j / 2 * t->w_panel + j % 2 * QGEMM_HALF;
            __m256i products = _mm256_maddubs_epi16(a, qgemm_load_avx2(w + at));
            if (is_pair)
                products = _mm256_add_epi16(
                    products, _mm256_maddubs_epi16(b, qgemm_load_avx2(w + at + QGEMM_BLOCK)));
            acc[j / 2][i][j % 2] = qgemm_add_products_avx2(acc[j / 2][i][j % 2], products, ones);
        }
    }
}

/* Weights of eight columns of a step in 16 bits: those of k 0 and 2, and those of k 1 and 3. */
struct wide_columns {
    __m256i even, odd;
};

static inline struct wide_columns widen_columns(const uint8_t *w)
{
    const __m256i bytes = qgemm_load_avx2(w);
    return (struct wide_columns){_mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8),
                                 _mm256_srai_epi16(bytes, 8)};
}

static inline __m256i add_columns(__m256i sums, __m256i even, __m256i odd, struct wide_columns w)
{
    return qgemm_add_products_avx2(qgemm_add_products_avx2(sums, even, w.even), odd, w.odd);
}

/* Adds those of a step of any weights of a panel, and of bytes of x that `flip` makes unsigned. */
static inline __attribute__((always_inline)) void add_wide(__m256i acc[MAX_ROWS][2], int rows,
                                                           const uint8_t *const x[], int64_t step,
                                                           const uint8_t *w, __m256i flip)
{
    const __m256i low_bytes = _mm256_set1_epi16(255);
    const struct wide_columns low = widen_columns(w), high = widen_columns(w + QGEMM_HALF);
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++) {
        const __m256i four = _mm256_xor_si256(qgemm_broadcast_avx2(x[i] + step), flip);
        const __m256i even = _mm256_and_si256(four, low_bytes), odd = _mm256_srli_epi16(four, 8);
        acc[i][0] = add_columns(acc[i][0], even, odd, low);
        acc[i][1] = add_columns(acc[i][1], even, odd, high);
    }
}

/* Where a tile fetches panels from that are read next, a line for each four steps: the first tiles
 * do, a part of the lines each. NULL for all others.
 */
static inline const uint8_t *part_of_next(const struct qgemm_tile *t, int blocks, int64_t tile)
{
    return t->next != t->w && tile < QGEMM_QUAD * blocks ? t->next + tile * QGEMM_BLOCK : NULL;
}

static inline void prefetch(const uint8_t *next, int blocks, int64_t k)
{
    if (next != NULL)
        _mm_prefetch((const char *)next + k * (blocks * QGEMM_BLOCK), _MM_HINT_T1);
}

static inline __attribute__((always_inline)) void
add_scheduled(qgemm_sums_avx2 acc, int blocks, int rows, const struct qgemm_tile *t,
              const struct qgemm_kinds *kinds, const uint8_t *const x[], int64_t tile)
{
    const uint8_t *next = part_of_next(t, blocks, tile);
    const uint16_t *order = t->schedule->at;
    const int64_t *steps = t->steps;
#pragma GCC unroll 1
    for (const uint16_t *at = order, *end = order + kinds->pairs_end; at != end; at++) {
        const int64_t k = *at;
        prefetch(next, blocks, k);
#pragma GCC unroll 2
        for (int i = 0; i < QGEMM_QUAD; i += 2)
            add_bytes(acc, blocks, rows, t, x, steps[k] + i * QGEMM_K0,
                      t->w + (k + i) * QGEMM_BLOCK, true);
    }
#pragma GCC unroll 1
    for (const uint16_t *at = order + kinds->fours, *end = order + kinds->singles; at != end;
         at++) {
        const int64_t k = *at;
        prefetch(next, blocks, k);
#pragma GCC unroll 4
        for (int i = 0; i < QGEMM_QUAD; i++)
            add_bytes(acc, blocks, rows, t, x, steps[k] + i * QGEMM_K0,
                      t->w + (k + i) * QGEMM_BLOCK, false);
    }
#pragma GCC unroll 1
    for (const uint16_t *at = order + kinds->singles, *end = order + kinds->singles_end; at != end;
         at++) {
        const int64_t k = *at;
        add_bytes(acc, blocks, rows, t, x, steps[k], t->w + k * QGEMM_BLOCK, false);
    }
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 1
        for (const uint16_t *at = order + kinds->wide, *end = order + kinds->wide_end; at != end;
             at++) {
            const int64_t k = *at;
            add_wide(acc[b], rows, x, steps[k], t->w + b * t->w_panel + k * QGEMM_BLOCK,
                     _mm256_setzero_si256());
        }
}

static inline __attribute__((always_inline)) void
add_unscheduled(qgemm_sums_avx2 acc, int blocks, int rows, const struct qgemm_tile *t,
                const struct qgemm_kinds *kinds, const uint8_t *const x[], int64_t tile)
{
    (void)kinds;
    (void)tile;
    const __m256i flip = _mm256_set1_epi32((int32_t)t->x_flip);
    const uint8_t *w = t->w;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
#pragma GCC unroll 1
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK)
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++)
                add_wide(acc[b], rows, x, t->steps[k], w + b * t->w_panel, flip);
}

#define DEFINE(blocks, rows)                                                                       \
    QGEMM_DEFINE_TILES(unscheduled, add_unscheduled, QGEMM_ANY_RESULTS, blocks, rows)              \
    QGEMM_DEFINE_TILES(scheduled, add_scheduled, QGEMM_ANY_RESULTS, blocks, rows)                  \
    QGEMM_DEFINE_TILES(bytes, add_scheduled, QGEMM_WHOLE_UINT8, blocks, rows)                      \
    QGEMM_DEFINE_TILES(added_bytes, add_scheduled, QGEMM_WHOLE_UINT8_AND_ADDEND, blocks, rows)     \
    static void micro_##blocks##_##rows(const struct qgemm_tile *t)                                \
    {                                                                                              \
        static const qgemm_micro by_results[] = {                                                  \
            scheduled_##blocks##_##rows, bytes_##blocks##_##rows, added_bytes_##blocks##_##rows};  \
        if (t->wide_w != NULL)                                                                     \
            qgemm_wide_avx2(t, blocks);                                                            \
        else if (t->schedule == NULL)                                                              \
            unscheduled_##blocks##_##rows(t);                                                      \
        else                                                                                       \
            by_results[qgemm_results_of(t, blocks)](t);                                            \
    }
#define NAME(blocks, rows) micro_##blocks##_##rows,

static void wide_1(const struct qgemm_tile *t)
{
    qgemm_wide_avx2(t, 1);
}

static void wide_2(const struct qgemm_tile *t)
{
    qgemm_wide_avx2(t, 2);
}

COUNT_TO_3(DEFINE, 1)
COUNT_TO_3(DEFINE, 2)

void qgemm_any_avx2(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {
        COUNT_TO_3(NAME, 1) wide_1, wide_1, wide_1, COUNT_TO_3(NAME, 2) wide_2, wide_2, wide_2,
    };
    qgemm_drive(args, &(struct qgemm_isa){.max_blocks = MAX_BLOCKS,
                                          .max_rows = QGEMM_WIDE_ROWS,
                                          .byte_rows = MAX_ROWS,
                                          .row_step = 1,
                                          .micro = table,
                                          .takes_lines = true,
                                          .schedule = schedule,
                                          .widen = qgemm_widen_avx2});
}
