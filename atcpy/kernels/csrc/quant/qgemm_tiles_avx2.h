/* The tiles of a call of qgemm in vectors of 256 bits, whose sums lie in registers. */
#ifndef ATC_QGEMM_TILES_AVX2_H
#define ATC_QGEMM_TILES_AVX2_H

#include "quant/qgemm_finish_avx2.h"

enum {
    QGEMM_ROWS_AVX2 = 6, /* of a tile by one panel; by two panels half of them */
    QGEMM_BLOCKS_AVX2 = 2,
    QGEMM_HALF = QGEMM_BLOCK / 2, /* bytes of 8 columns of a panel's row */
};

typedef __m256i qgemm_sums_avx2[QGEMM_BLOCKS_AVX2][QGEMM_ROWS_AVX2][2];

/* Adds the products of a tile, whose rows of x begin at `x`, to its sums. `tile` counts the tiles
 * that passed over the same panels before; `kinds` are those of the schedule, if there is one.
 */
typedef void (*qgemm_add_tile_avx2)(qgemm_sums_avx2 acc, int blocks, int rows,
                                    const struct qgemm_tile *t, const struct qgemm_kinds *kinds,
                                    const uint8_t *const x[], int64_t tile);

/* Four bytes in all lanes. */
static inline __m256i qgemm_broadcast_avx2(const uint8_t *at)
{
    int32_t four;
    memcpy(&four, at, sizeof four);
    return _mm256_set1_epi32(four);
}

/* What the code of a tile's results is compiled for: whole panels of uint8 from bounded sums are
 * what most layers of quantised networks make.
 */
enum qgemm_results_avx2 { QGEMM_ANY_RESULTS, QGEMM_WHOLE_UINT8, QGEMM_WHOLE_UINT8_AND_ADDEND };

static inline enum qgemm_results_avx2 qgemm_results_of(const struct qgemm_tile *t, int blocks)
{
    bool is_whole = t->result == QGEMM_U8 && t->row_sums == NULL && t->last_columns == QGEMM_PANEL;
    for (int b = 0; b < blocks; b++)
        is_whole = is_whole && t->columns[b].is_bounded;
    if (!is_whole)
        return QGEMM_ANY_RESULTS;
    return t->addend == NULL ? QGEMM_WHOLE_UINT8 : QGEMM_WHOLE_UINT8_AND_ADDEND;
}

#define QGEMM_ASSUME(condition)                                                                    \
    do                                                                                             \
        if (!(condition))                                                                          \
            __builtin_unreachable();                                                               \
    while (0)

/* Tells the compiler what qgemm_results_of found. */
static inline void qgemm_assume_results(const struct qgemm_tile *t, int block,
                                        enum qgemm_results_avx2 results)
{
    if (results == QGEMM_ANY_RESULTS)
        return;
    QGEMM_ASSUME(t->result == QGEMM_U8 && t->row_sums == NULL && t->last_columns == QGEMM_PANEL);
    QGEMM_ASSUME(t->columns[block].is_bounded);
    QGEMM_ASSUME((t->addend != NULL) == (results == QGEMM_WHOLE_UINT8_AND_ADDEND));
}

/* All tiles: their rows of x lie behind each other in lines. */
static inline __attribute__((always_inline)) void qgemm_tiles_avx2(const struct qgemm_tile *tile,
                                                                   qgemm_add_tile_avx2 add,
                                                                   enum qgemm_results_avx2 results,
                                                                   int blocks, int rows)
{
    /* Copies, which no store can change. */
    const struct qgemm_tile copy = *tile, *t = &copy;
    const struct qgemm_kinds kinds =
        t->schedule != NULL ? t->schedule->kinds : (struct qgemm_kinds){0};
    struct qgemm_cursor cursor = qgemm_first_row(t);
    uint8_t *dst = t->dst;
    for (int64_t tile_at = 0; tile_at < t->tiles; tile_at++, dst += rows * t->dst_row) {
        const uint8_t *x[QGEMM_ROWS_AVX2];
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            x[i] = qgemm_next_row(t, &cursor);
        qgemm_sums_avx2 acc;
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++)
                for (int h = 0; h < 2; h++)
                    acc[b][i][h] = qgemm_start_avx2(t, b, h);
        add(acc, blocks, rows, t, &kinds, x, t->tiles_before + tile_at);
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++) {
            qgemm_assume_results(t, b, results);
            qgemm_finish_avx2(t, acc[b], dst + b * t->dst_panel, (int)tile_at * rows, rows, b,
                              blocks);
        }
    }
}

/* One function a number of panels and rows: apart from all others, the compiler keeps its sums in
 * registers.
 */
#define QGEMM_DEFINE_TILES(name, add, results, blocks, rows)                                       \
    static __attribute__((noinline)) void name##_##blocks##_##rows(const struct qgemm_tile *t)     \
    {                                                                                              \
        qgemm_tiles_avx2(t, add, results, blocks, rows);                                           \
    }

#endif
