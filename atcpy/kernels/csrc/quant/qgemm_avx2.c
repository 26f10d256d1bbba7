/* qgemm on AVX2: up to 6 rows of two panels, one after the other. Bytes are widened to 16 bits,
 * whose products vpmaddwd adds exactly; vpmaddubsw would saturate.
 */
#include "quant/qgemm_finish_avx2.h"
#include "simd/count_up.h"

enum {
    MAX_ROWS = 6,
    PAIR = 2 * QGEMM_PANEL, /* words of a panel that two steps of k take */
    STEPS = 128,            /* of QGEMM_K0, that rows of x are widened for at once */
    QUAD = 4 * QGEMM_K0,    /* words of four steps of a row */
    NARROW_ROWS = 3,
    QUARTERS = 4,
};

/* Each four columns of a panel's row, [4][4] bytes, become parts of two rows [16][2] of words. */
static void widen(const struct kernel_args *args, const uint8_t *panel, int64_t k1, int16_t *to)
{
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, panel += QGEMM_BLOCK, to += 2 * PAIR)
            for (int q = 0; q < QUARTERS; q++) {
                const __m128i bytes =
                    _mm_loadu_si128((const __m128i *)(const void *)(panel + q * 16));
                const __m256i words =
                    _mm256_permutevar8x32_epi32(_mm256_cvtepi8_epi16(bytes), order);
                _mm_storeu_si128((__m128i *)(void *)(to + q * 8), _mm256_castsi256_si128(words));
                _mm_storeu_si128((__m128i *)(void *)(to + PAIR + q * 8),
                                 _mm256_extracti128_si256(words, 1));
            }
}

static inline __m256i sixteen_words(const uint8_t *x, bool is_signed)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)x);
    return is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

static inline __m128i four_words(const uint8_t *x, bool is_signed)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    const __m128i bytes = _mm_cvtsi32_si128(four);
    return is_signed ? _mm_cvtepi8_epi16(bytes) : _mm_cvtepu8_epi16(bytes);
}

/* Steps of rows of x as words, [⌈steps / 4⌉][MAX_ROWS][16]: a displacement of one byte reaches them
 * all, which makes instructions short enough to be fetched in time. Four steps of k lie side by
 * side mostly.
 */
static inline __attribute__((always_inline)) void widen_rows(const struct qgemm_tile *t,
                                                             const int64_t *at, int64_t steps,
                                                             bool is_signed, int rows, int16_t *to)
{
    const int64_t x_row = t->x_row;
    int64_t k = 0;
    while (k < steps) {
        const uint8_t *x = t->x[0] + at[k];
        int16_t *words = to + k / 4 * (MAX_ROWS * QUAD) + k % 4 * QGEMM_K0;
        if (k % 4 == 0 && k + 4 <= steps && at[k + 3] - at[k] == 3 * QGEMM_K0) {
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++)
                _mm256_storeu_si256((__m256i *)(void *)(words + i * QUAD),
                                    sixteen_words(x + i * x_row, is_signed));
            k += 4;
        } else {
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++)
                _mm_storel_epi64((__m128i *)(void *)(words + i * QUAD),
                                 four_words(x + i * x_row, is_signed));
            k++;
        }
    }
}

/* Two words in all lanes. */
static inline __m256i both(const int16_t *at)
{
    int32_t pair;
    memcpy(&pair, at, sizeof pair);
    return _mm256_set1_epi32(pair);
}

/* Adds up `steps` steps of k. */
static inline __attribute__((always_inline)) void
add_products(const int16_t *w, int64_t steps, int rows, const int16_t *x, __m256i sums[MAX_ROWS][2])
{
    __m256i acc[MAX_ROWS][2];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            acc[i][h] = sums[i][h];
    for (int64_t left = steps; left > 0; left -= 4, x += MAX_ROWS * QUAD) {
        const int16_t *at = x + 3 * QUAD, *end = at + min_i64(left, 4) * QGEMM_K0;
        /* Not unrolled: the compiler would add up products before it adds them to the sums. */
#pragma GCC unroll 1
        for (; at != end; at += 2, w += PAIR) {
            const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)w);
            const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(w + PAIR / 2));
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                const __m256i two = both(at + (i - 3) * QUAD);
                acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(two, low));
                acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(two, high));
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            sums[i][h] = acc[i][h];
}

/* Rows of x are widened once for all panels, whose sums wait in memory in between. */
static inline __attribute__((always_inline)) void wide_micro(const struct qgemm_tile *t, int blocks,
                                                             int rows)
{
    int16_t x[STEPS / 4 * MAX_ROWS * QUAD];
    __m256i sums[QGEMM_MAX_BLOCKS][MAX_ROWS][2];
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++)
                sums[b][i][h] = qgemm_start_avx2(t, b, h);
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin, end; k < piece.end; k = end) {
            end = min_i64(k + STEPS, piece.end);
            if (t->x_signed)
                widen_rows(t, t->steps + k, end - k, true, rows, x);
            else
                widen_rows(t, t->steps + k, end - k, false, rows, x);
            for (int b = 0; b < blocks; b++)
                add_products(t->wide + b * t->w_panel + k * 2 * PAIR, end - k, rows, x, sums[b]);
        }
    for (int b = 0; b < blocks; b++)
        qgemm_finish_avx2(t, sums[b], t->dst + b * t->dst_panel, 0, rows, b, blocks);
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
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK) {
            const uint8_t *x = t->x[0] + steps[k] + first * x_row;
            __m256i four[NARROW_ROWS];
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++)
                four[i] = _mm256_broadcastq_epi64(four_words(x + i * x_row, t->x_signed));
#pragma GCC unroll 4
            for (int q = 0; q < QUARTERS; q++) {
                const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(w + q * 16));
                const __m256i columns = _mm256_cvtepi8_epi16(bytes);
#pragma GCC unroll 3
                for (int i = 0; i < rows; i++)
                    acc[i][q] = _mm256_add_epi32(acc[i][q], _mm256_madd_epi16(four[i], columns));
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

#define DEFINE_WIDE(name, rows)                                                                    \
    static void name##_##rows(const struct qgemm_tile *t, int blocks)                              \
    {                                                                                              \
        wide_micro(t, blocks, rows);                                                               \
    }
#define DEFINE(blocks, rows)                                                                       \
    static void micro_##blocks##_##rows(const struct qgemm_tile *t)                                \
    {                                                                                              \
        if (t->wide == NULL)                                                                       \
            narrow(t, blocks);                                                                     \
        else                                                                                       \
            wide_##rows(t, blocks);                                                                \
    }
#define NAME(blocks, rows) micro_##blocks##_##rows,

COUNT_TO_6(DEFINE_WIDE, wide)
COUNT_TO_6(DEFINE, 1)
COUNT_TO_6(DEFINE, 2)

void qgemm_any_avx2(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {COUNT_TO_6(NAME, 1) COUNT_TO_6(NAME, 2)};
    qgemm_drive(args, &(struct qgemm_isa){.max_blocks = QGEMM_MAX_BLOCKS,
                                          .max_rows = MAX_ROWS,
                                          .row_step = 1,
                                          .micro = table,
                                          .reads_signed = true,
                                          .widen = widen});
}
