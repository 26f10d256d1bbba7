/* qgemm on AVX-512 VNNI: up to 14 rows of two panels in 28 accumulators, x broadcast. */
#include "quant/qgemm_finish_avx512.h"
#include "simd/count_up.h"

#include <string.h>

enum { MAX_BLOCKS = 2, MAX_ROWS = QGEMM_MAX_ROWS, PART = QGEMM_PART_ROWS };

static inline int32_t word(const uint8_t *at)
{
    int32_t four;
    memcpy(&four, at, sizeof four);
    return four;
}

/* One function a (is_flipped, blocks, rows): the loops unroll into registers, and bytes of x that
 * are unsigned already are multiplied as they are broadcast.
 */
static inline __attribute__((always_inline)) void micro(const struct qgemm_tile *t, bool is_flipped,
                                                        int blocks, int rows)
{
    __m512i acc[MAX_BLOCKS][MAX_ROWS];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            acc[b][i] = qgemm_start_avx512(t, b);

    const __m512i flip = _mm512_set1_epi32((int)t->x_flip);
    const uint8_t *w = t->w, *next = t->next;
    const int64_t w_panel = t->w_panel, x_row = t->x_row, *steps = t->steps;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK, next += QGEMM_BLOCK) {
            const uint8_t *x[2] = {t->x[0] + steps[k], t->x[1] + steps[k]};
            __m512i panel[MAX_BLOCKS];
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++) {
                _mm_prefetch((const char *)next + b * w_panel, _MM_HINT_T1);
                panel[b] = _mm512_loadu_si512(w + b * w_panel);
            }
#pragma GCC unroll 14
            for (int i = 0; i < rows; i++) {
                __m512i four = _mm512_set1_epi32(word(x[i / PART] + i % PART * x_row));
                if (is_flipped)
                    four = _mm512_xor_si512(four, flip);
#pragma GCC unroll 2
                for (int b = 0; b < blocks; b++)
                    acc[b][i] = _mm512_dpbusd_epi32(acc[b][i], four, panel[b]);
            }
        }

#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
        qgemm_finish_avx512(t, acc[b], t->dst + b * t->dst_panel, 0, rows, b, blocks);
}

#define DEFINE(is_flipped, blocks, rows)                                                           \
    static void micro_##is_flipped##_##blocks##_##rows(const struct qgemm_tile *t)                 \
    {                                                                                              \
        micro(t, is_flipped, blocks, rows);                                                        \
    }
#define NAME(is_flipped, blocks, rows) micro_##is_flipped##_##blocks##_##rows,

COUNT_TO_14(DEFINE, 0, 1)
COUNT_TO_14(DEFINE, 0, 2)
COUNT_TO_14(DEFINE, 1, 1)
COUNT_TO_14(DEFINE, 1, 2)

void qgemm_any_avx512vnni(const struct kernel_args *args)
{
    static const qgemm_micro table[][MAX_BLOCKS * MAX_ROWS] = {
        {COUNT_TO_14(NAME, 0, 1) COUNT_TO_14(NAME, 0, 2)},
        {COUNT_TO_14(NAME, 1, 1) COUNT_TO_14(NAME, 1, 2)},
    };
    const struct qgemm_params *p = args->params;
    qgemm_drive(args,
                &(struct qgemm_isa){MAX_BLOCKS, MAX_ROWS, 1, .micro = table[p->x_signed == 1]});
}
