/* qgemm on AVX-512 VNNI: up to 12 rows of two panels in 24 accumulators, x broadcast. */
#include "quant/qgemm_finish_avx512.h"
#include "simd/count_up.h"

#include <string.h>

enum { MAX_BLOCKS = QGEMM_MAX_BLOCKS, MAX_ROWS = 12 };

static inline int32_t word(const uint8_t *at)
{
    int32_t four;
    memcpy(&four, at, sizeof four);
    return four;
}

/* One function a (blocks, rows): the loops over them unroll into registers. */
static inline __attribute__((always_inline)) void micro(const struct qgemm_tile *t, int blocks,
                                                        int rows)
{
    __m512i acc[MAX_BLOCKS][MAX_ROWS];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
            acc[b][i] = _mm512_setzero_si512();

    const __m512i flip = _mm512_set1_epi32((int)t->flip);
    /* A base for three rows, so that bases and stride stay in registers. */
    const uint8_t *x[(MAX_ROWS + 2) / 3], *w = t->w;
    const int64_t w_panel = t->w_panel, x_row = t->x_row;
#pragma GCC unroll 4
    for (int i = 0; i * 3 < rows; i++)
        x[i] = t->x + i * 3 * x_row;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK) {
            __m512i panel[MAX_BLOCKS];
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++)
                panel[b] = _mm512_xor_si512(_mm512_loadu_si512(w + b * w_panel), flip);
#pragma GCC unroll 12
            for (int i = 0; i < rows; i++) {
                const __m512i four = _mm512_set1_epi32(word(x[i / 3] + i % 3 * x_row));
#pragma GCC unroll 2
                for (int b = 0; b < blocks; b++)
                    acc[b][i] = _mm512_dpbusd_epi32(acc[b][i], four, panel[b]);
            }
#pragma GCC unroll 4
            for (int i = 0; i * 3 < rows; i++)
                x[i] += QGEMM_K0;
        }

#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
            qgemm_finish_avx512(t, acc[b][i], i, b, blocks);
}

#define DEFINE(blocks, rows)                                                                       \
    static void micro_##blocks##_##rows(const struct qgemm_tile *t)                                \
    {                                                                                              \
        micro(t, blocks, rows);                                                                    \
    }
#define NAME(blocks, rows) micro_##blocks##_##rows,

COUNT_TO_12(DEFINE, 1)
COUNT_TO_12(DEFINE, 2)

static const qgemm_micro table[] = {COUNT_TO_12(NAME, 1) COUNT_TO_12(NAME, 2)};

static int32_t sum(const uint8_t *row, int64_t n)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i total = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        total = _mm512_dpbusd_epi32(total, _mm512_loadu_si512(row + i), ones);
    if (i < n) {
        const __mmask64 rest = (UINT64_C(1) << (n - i)) - 1;
        total = _mm512_dpbusd_epi32(total, _mm512_maskz_loadu_epi8(rest, row + i), ones);
    }
    return _mm512_reduce_add_epi32(total);
}

void qgemm_any_avx512vnni(const struct kernel_args *args)
{
    qgemm_drive(args, &(struct qgemm_isa){MAX_BLOCKS, MAX_ROWS, table, sum});
}
