/* Products of 16-bit integers: qgemm_wide_avx2.h. */
#include "quant/qgemm_wide_avx2.h"

#include "quant/qgemm_finish_avx2.h"
#include "simd/count_up.h"

enum {
    ROWS = QGEMM_WIDE_ROWS,
    QUARTERS = 4,                 /* of a panel's row of bytes */
    FOUR = QGEMM_QUAD * QGEMM_K0, /* elements of four steps of a row of x */
    PAIR = QGEMM_BLOCK / 2,       /* weights of a panel that two elements of k take */
};

static inline __m128i load_16(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

static void widen_step(const uint8_t *w, int16_t *to)
{
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    for (int q = 0; q < QUARTERS; q++) {
        const __m256i wide = _mm256_permutevar8x32_epi32(
            _mm256_cvtepi8_epi16(load_16(w + q * (QGEMM_BLOCK / QUARTERS))), order);
        _mm_storeu_si128((__m128i *)(void *)(to + q * 8), _mm256_castsi256_si128(wide));
        _mm_storeu_si128((__m128i *)(void *)(to + PAIR + q * 8), _mm256_extracti128_si256(wide, 1));
    }
}

void qgemm_widen_avx2(const struct qgemm_panels *w, int16_t *to)
{
    for (int b = 0; b < w->blocks; b++)
        for (int64_t k = 0; k < w->k1; k++, to += 2 * PAIR)
            widen_step(w->w + b * w->w_panel + k * QGEMM_BLOCK, to);
}

/* Widens rows of x to [⌈k1 / 4⌉][ROWS][16]: a displacement of one byte reaches all rows. Four steps
 * of k lie side by side mostly.
 */
static inline __attribute__((always_inline)) void
widen_rows(const struct qgemm_tile *t, const uint8_t *const x[], int rows, int16_t *to)
{
    for (int64_t k = 0; k < t->k1;) {
        int16_t *into = to + k / QGEMM_QUAD * (ROWS * FOUR) + k % QGEMM_QUAD * QGEMM_K0;
        const bool is_quad =
            k % QGEMM_QUAD == 0 && k + QGEMM_QUAD <= t->k1 && qgemm_side_by_side(t->steps + k);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++, into += FOUR) {
            const uint8_t *from = x[i] + t->steps[k];
            if (is_quad) {
                _mm256_storeu_si256((__m256i *)(void *)into, _mm256_cvtepu8_epi16(load_16(from)));
            } else {
                int32_t bytes;
                memcpy(&bytes, from, sizeof bytes);
                _mm_storel_epi64((__m128i *)(void *)into,
                                 _mm_cvtepu8_epi16(_mm_cvtsi32_si128(bytes)));
            }
        }
        k += is_quad ? QGEMM_QUAD : 1;
    }
}

/* Two elements of x in all lanes. */
static inline __m256i everywhere(const int16_t *at)
{
    int32_t two;
    memcpy(&two, at, sizeof two);
    return _mm256_set1_epi32(two);
}

static inline __attribute__((always_inline)) void
add_products(__m256i acc[ROWS][2], int rows, int64_t k1, const int16_t *x, const int16_t *w)
{
    for (int64_t left = k1; left > 0; left -= QGEMM_QUAD, x += ROWS * FOUR) {
        const int16_t *at = x + 3 * FOUR, *end = at + min_i64(left, QGEMM_QUAD) * QGEMM_K0;
#pragma GCC unroll 1
        for (; at != end; at += 2, w += PAIR) {
            const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)w);
            const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(w + PAIR / 2));
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                const __m256i two = everywhere(at + (i - 3) * FOUR);
                acc[i][0] = qgemm_add_products_avx2(acc[i][0], two, low);
                acc[i][1] = qgemm_add_products_avx2(acc[i][1], two, high);
            }
        }
    }
}

static inline __attribute__((always_inline)) void micro(const struct qgemm_tile *tile, int blocks,
                                                        int rows)
{
    const struct qgemm_tile copy = *tile, *t = &copy; /* which no store can change */
    struct qgemm_cursor cursor = qgemm_first_row(t);
    uint8_t *dst = t->dst;
    for (int first = 0; first < t->tiles * rows; first += rows, dst += rows * t->dst_row) {
        const uint8_t *x[ROWS];
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            x[i] = qgemm_next_row(t, &cursor);
        widen_rows(t, x, rows, t->wide_x);
        for (int b = 0; b < blocks; b++) {
            __m256i acc[ROWS][2];
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++)
                for (int h = 0; h < 2; h++)
                    acc[i][h] = qgemm_start_avx2(t, b, h);
            add_products(acc, rows, t->k1, t->wide_x, t->wide_w + b * t->k1 * (2 * PAIR));
            qgemm_finish_avx2(t, acc, dst + b * t->dst_panel, first, rows, b, blocks);
        }
    }
}

#define DEFINE(unused, rows)                                                                       \
    static __attribute__((noinline)) void wide_##rows(const struct qgemm_tile *t, int blocks)     \
    {                                                                                              \
        micro(t, blocks, rows);                                                                    \
    }
#define NAME(unused, rows) wide_##rows,

COUNT_TO_6(DEFINE, )

void qgemm_wide_avx2(const struct qgemm_tile *t, int blocks)
{
    static void (*const by_rows[])(const struct qgemm_tile *, int) = {COUNT_TO_6(NAME, )};
    by_rows[t->rows - 1](t, blocks);
}
