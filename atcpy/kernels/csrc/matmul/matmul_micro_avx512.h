/* The micro-kernels of matmul on AVX-512: up to 14 rows of two panels in 28 accumulators, a
 * broadcast. Rows for float32 and for pairs of bfloat16 differ in one instruction, which they
 * bring.
 */
#ifndef ATC_MATMUL_MICRO_AVX512_H
#define ATC_MATMUL_MICRO_AVX512_H

#include "core/pieces.h"
#include "matmul/matmul_finish_avx512.h"
#include "simd/count_up.h"

enum { MAX_BLOCKS = MATMUL_MAX_BLOCKS, MAX_ROWS = 14, ROW_SUMS = 4 };

/* sum + x · b, where a lane of x and b is a float or a pair of bfloat16. */
typedef __m512 (*multiply_add_fn)(__m512 sum, __m512 x, __m512 b);

/* One function a (blocks, rows): the loops over them unroll into registers. What the sums begin
 * from is added last: a residual that is large beside the products would round each of them.
 */
static inline __attribute__((always_inline)) void micro(const struct matmul_tile *t, int blocks,
                                                        int rows, multiply_add_fn multiply_add)
{
    __m512 acc[MAX_BLOCKS][MAX_ROWS];
    __mmask16 mask[MAX_BLOCKS];
    const float *start = t->first ? t->residual : t->dst;
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++) {
        mask[b] = panel_mask(t, b);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            acc[b][i] = _mm512_setzero_ps();
    }

    /* What is added at the end, or where the sums go: by then it is in L1. */
    const float *soon = start != NULL ? start : t->dst;
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
            _mm_prefetch((const char *)(soon + i * t->y_row + b * LANES), _MM_HINT_T0);

    /* The addresses may go a little beyond the operand, which is no matter to a prefetch. */
    const uintptr_t next_step = t->next_b != NULL ? (uintptr_t)t->next_bytes : 0;
    uintptr_t next = (uintptr_t)(t->next_b != NULL ? t->next_b : (const void *)t->b);

    /* A base for three rows, so that bases and stride stay in registers. */
    const float *a[(MAX_ROWS + 2) / 3], *p = t->b;
    const int64_t b_step = t->b_step, b_panel = t->b_panel, a_row = t->a_row,
                  next_panel = t->next_panel;
#pragma GCC unroll 5
    for (int i = 0; i * 3 < rows; i++)
        a[i] = t->a + i * 3 * a_row;
    for (int64_t k = 0; k < t->k; k++, p += b_step) {
        __m512 pv[MAX_BLOCKS];
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++) {
            pv[b] = _mm512_loadu_ps(p + b * b_panel);
            _mm_prefetch((const char *)next + b * next_panel, _MM_HINT_T1);
        }
        next += next_step;
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            const __m512 x = _mm512_set1_ps(a[i / 3][i % 3 * a_row]);
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++)
                acc[b][i] = multiply_add(acc[b][i], x, pv[b]);
        }
#pragma GCC unroll 5
        for (int i = 0; i * 3 < rows; i++)
            a[i]++;
    }

    if (start != NULL)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
            for (int i = 0; i < rows; i++)
                acc[b][i] = _mm512_add_ps(
                    acc[b][i], _mm512_maskz_loadu_ps(mask[b], start + i * t->y_row + b * LANES));
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            _mm512_mask_storeu_ps(t->dst + i * t->y_row + b * LANES, mask[b],
                                  t->last ? finish(t, acc[b][i], i, b, mask[b]) : acc[b][i]);
    if (activates_later(t))
        activate_tile(t, blocks, rows);
}

/* One row: bound by reading b, so that steps of k go to sums of their own. */
static inline __attribute__((always_inline)) void row_micro(const struct matmul_tile *t, int blocks,
                                                            multiply_add_fn multiply_add)
{
    __m512 acc[MAX_BLOCKS][ROW_SUMS];
    const int64_t b_step = t->b_step;
    const float *a = t->a, *p = t->b;
    const float *start = t->first ? t->residual : t->dst;
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 4
        for (int s = 0; s < ROW_SUMS; s++)
            acc[b][s] = _mm512_setzero_ps();
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k);) {
        int64_t k = piece.begin;
        for (; k + ROW_SUMS <= piece.end; k += ROW_SUMS, p += ROW_SUMS * b_step) {
#pragma GCC unroll 4
            for (int s = 0; s < ROW_SUMS; s++) {
                const __m512 x = _mm512_set1_ps(a[k + s]);
#pragma GCC unroll 2
                for (int b = 0; b < blocks; b++)
                    acc[b][s] = multiply_add(acc[b][s], x,
                                             _mm512_loadu_ps(p + b * t->b_panel + s * b_step));
            }
        }
        for (; k < piece.end; k++, p += b_step)
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++)
                acc[b][0] = multiply_add(acc[b][0], _mm512_set1_ps(a[k]),
                                         _mm512_loadu_ps(p + b * t->b_panel));
    }
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++) {
        const __mmask16 mask = panel_mask(t, b);
        __m512 sum =
            _mm512_add_ps(_mm512_add_ps(acc[b][0], acc[b][1]), _mm512_add_ps(acc[b][2], acc[b][3]));
        if (start != NULL)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, start + b * LANES));
        _mm512_mask_storeu_ps(t->dst + b * LANES, mask, t->last ? finish(t, sum, 0, b, mask) : sum);
    }
    if (activates_later(t))
        activate_tile(t, blocks, 1);
}

/* Defines the table `micros` of the micro-kernels that multiply by `multiply_add`. */
#define DEFINE_MICRO(multiply_add, blocks, rows)                                                   \
    static void micro_##blocks##_##rows(const struct matmul_tile *tile)                            \
    {                                                                                              \
        if (rows == 1)                                                                             \
            row_micro(tile, blocks, multiply_add);                                                 \
        else                                                                                       \
            micro(tile, blocks, rows, multiply_add);                                               \
    }
#define NAME_MICRO(blocks, rows) micro_##blocks##_##rows,
#define DEFINE_MICROS(multiply_add)                                                                \
    COUNT_TO_14(DEFINE_MICRO, multiply_add, 1)                                                     \
    COUNT_TO_14(DEFINE_MICRO, multiply_add, 2)                                                     \
    static const matmul_micro micros[] = {COUNT_TO_14(NAME_MICRO, 1) COUNT_TO_14(NAME_MICRO, 2)};

#endif
