/* What becomes of the sums of 16 columns: qgemm_finish.h in registers. */
#ifndef ATC_QGEMM_FINISH_AVX512_H
#define ATC_QGEMM_FINISH_AVX512_H

#include "quant/qgemm.h"

#include <immintrin.h>

/* What the sums of a block begin with. */
static inline __m512i qgemm_start_avx512(const struct qgemm_tile *t, int block)
{
    return _mm512_loadu_si512(t->columns[block].start);
}

/* Up to four rows of bytes: rounded, saturated, and stored together where they lie side by side. */
static inline __attribute__((always_inline)) void qgemm_bytes_avx512(const struct qgemm_tile *t,
                                                                     const __m512i *sums, int rows,
                                                                     __m512 scale, uint8_t *dst,
                                                                     __mmask16 mask)
{
    /* NaN stays, and becomes the least integer, which saturates. */
    const __m512 max = _mm512_set1_ps(65536);
    __m512i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        q[i] = i < rows ? _mm512_cvtps_epi32(
                              _mm512_min_ps(max, _mm512_mul_ps(_mm512_cvtepi32_ps(sums[i]), scale)))
                        : q[0];
    const __m512i zero = _mm512_set1_epi16((short)t->y_zero);
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero);
    const __m512i mixed =
        t->result == QGEMM_I8 ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    /* Each quarter has four columns of each row. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, mixed);
    if (t->dst_row == QGEMM_PANEL && mask == 0xffff) {
        _mm512_mask_storeu_epi32(dst, (__mmask16)((1u << 4 * rows) - 1), bytes);
        return;
    }
    _mm_mask_storeu_epi8(dst, mask, _mm512_castsi512_si128(bytes));
    if (rows > 1)
        _mm_mask_storeu_epi8(dst + t->dst_row, mask, _mm512_extracti32x4_epi32(bytes, 1));
    if (rows > 2)
        _mm_mask_storeu_epi8(dst + 2 * t->dst_row, mask, _mm512_extracti32x4_epi32(bytes, 2));
    if (rows > 3)
        _mm_mask_storeu_epi8(dst + 3 * t->dst_row, mask, _mm512_extracti32x4_epi32(bytes, 3));
}

/* Finishes `rows` rows of a block, from row `first` of the tile on, whose sums began with
 * qgemm_start_avx512.
 */
static inline __attribute__((always_inline)) void qgemm_finish_avx512(const struct qgemm_tile *t,
                                                                      __m512i *sums, int first,
                                                                      int rows, int block,
                                                                      int blocks)
{
    const struct qgemm_columns *c = t->columns + block;
    if (t->row_sums != NULL) {
        const __m512i zero = _mm512_loadu_si512(c->w_zero);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            sums[i] = _mm512_sub_epi32(
                sums[i], _mm512_mullo_epi32(_mm512_set1_epi32(t->row_sums[first + i]), zero));
    }
    uint8_t *dst = t->dst + first * t->dst_row + block * t->dst_panel;
    const __mmask16 mask = block + 1 < blocks ? 0xffff : (__mmask16)((1u << t->last_columns) - 1);
    const __m512 scale = _mm512_loadu_ps(c->scale);
    if (t->result == QGEMM_I32) {
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            _mm512_mask_storeu_epi32(dst + i * t->dst_row, mask, sums[i]);
    } else if (t->result == QGEMM_F32) {
        const __m512 bias = _mm512_loadu_ps(c->bias);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            _mm512_mask_storeu_ps(
                dst + i * t->dst_row, mask,
                _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[i]), scale), bias));
    } else {
#pragma GCC unroll 4
        for (int i = 0; i < rows; i += 4)
            qgemm_bytes_avx512(t, sums + i, rows - i < 4 ? rows - i : 4, scale,
                               dst + i * t->dst_row, mask);
    }
}

#endif
