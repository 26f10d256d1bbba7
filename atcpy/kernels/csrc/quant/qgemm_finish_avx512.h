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

/* Four sums as integers that are rounded. Products beyond the integers saturate: NaN and what is
 * too small become the least one, what is too large is cut before.
 */
static inline __m512i qgemm_round_avx512(__m512i sums, __m512 scale, bool is_bounded)
{
    const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale);
    return _mm512_cvtps_epi32(is_bounded ? v : _mm512_min_ps(_mm512_set1_ps(65536), v));
}

/* Up to four rows of rounded sums as bytes: saturated, and stored together where they lie side by
 * side.
 */
static inline __attribute__((always_inline)) void
qgemm_store_avx512(const struct qgemm_tile *t, __m512i first, __m512i second, __m512i third,
                   __m512i fourth, int rows, int32_t y_zero, bool is_signed, uint8_t *dst,
                   __mmask16 mask)
{
    const __m512i zero = _mm512_set1_epi16((short)y_zero);
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(first, second), zero);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(third, fourth), zero);
    const __m512i mixed =
        is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    /* Each quarter has four columns of each row. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, mixed);
    const int64_t row = t->dst_row;
    if (row == QGEMM_PANEL && mask == 0xffff) {
        _mm512_mask_storeu_epi32(dst, (__mmask16)(0xffffu >> 4 * (4 - (rows < 4 ? rows : 4))),
                                 bytes);
        return;
    }
    _mm_mask_storeu_epi8(dst, mask, _mm512_castsi512_si128(bytes));
    if (rows > 1)
        _mm_mask_storeu_epi8(dst + row, mask, _mm512_extracti32x4_epi32(bytes, 1));
    if (rows > 2)
        _mm_mask_storeu_epi8(dst + 2 * row, mask, _mm512_extracti32x4_epi32(bytes, 2));
    if (rows > 3)
        _mm_mask_storeu_epi8(dst + 3 * row, mask, _mm512_extracti32x4_epi32(bytes, 3));
}

static inline __attribute__((always_inline)) void
qgemm_bytes_avx512(const struct qgemm_tile *t, const __m512i *sums, int rows, __m512 scale,
                   bool is_bounded, bool is_signed, uint8_t *dst, __mmask16 mask)
{
    const __m512i first = qgemm_round_avx512(sums[0], scale, is_bounded);
    const __m512i second = rows > 1 ? qgemm_round_avx512(sums[1], scale, is_bounded) : first;
    const __m512i third = rows > 2 ? qgemm_round_avx512(sums[2], scale, is_bounded) : first;
    const __m512i fourth = rows > 3 ? qgemm_round_avx512(sums[3], scale, is_bounded) : first;
    qgemm_store_avx512(t, first, second, third, fourth, rows, t->y_zero, is_signed, dst, mask);
}

/* What an addend needs, in all lanes. */
struct qgemm_sum_avx512 {
    __m512 y_low, y_high, product_scale, addend_scale, offset;
};

static inline struct qgemm_sum_avx512 qgemm_sum_avx512(const struct qgemm_tile *t)
{
    const struct qgemm_sum *s = t->sum;
    const bool is_signed = t->result == QGEMM_I8;
    const float low = (float)((is_signed ? INT8_MIN : 0) - t->y_zero);
    return (struct qgemm_sum_avx512){
        .y_low = _mm512_set1_ps(low),
        .y_high = _mm512_set1_ps(low + 255),
        .product_scale = _mm512_set1_ps(s->product_scale),
        .addend_scale = _mm512_set1_ps(s->addend_scale),
        .offset = _mm512_set1_ps(s->offset),
    };
}

/* Sums as numbers of y, plus a row of the addend, rounded less the zero point of what they make. */
static inline __m512i qgemm_add_avx512(const struct qgemm_sum_avx512 *s, __m512i sums, __m512 scale,
                                       const uint8_t *addend, bool is_signed, __mmask16 mask)
{
    __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale);
    y = _mm512_min_ps(_mm512_max_ps(y, s->y_low), s->y_high); /* NaN too: the second operand */
    y = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m128i bytes = mask == 0xffff ? _mm_loadu_si128((const __m128i *)(const void *)addend)
                                         : _mm_maskz_loadu_epi8(mask, addend);
    const __m512i words = is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    const __m512 more = _mm512_fmadd_ps(_mm512_cvtepi32_ps(words), s->addend_scale, s->offset);
    return _mm512_cvtps_epi32(_mm512_fmadd_ps(y, s->product_scale, more));
}

/* Up to four rows with those of the addend. */
static inline __attribute__((always_inline)) void
qgemm_sum_bytes_avx512(const struct qgemm_tile *t, const struct qgemm_sum_avx512 *s,
                       const __m512i *sums, int rows, __m512 scale, bool is_signed, uint8_t *dst,
                       __mmask16 mask)
{
    const int64_t row = t->dst_row;
    const uint8_t *addend = t->addend + (dst - t->dst);
    const __m512i first = qgemm_add_avx512(s, sums[0], scale, addend, is_signed, mask);
    const __m512i second =
        rows > 1 ? qgemm_add_avx512(s, sums[1], scale, addend + row, is_signed, mask) : first;
    const __m512i third =
        rows > 2 ? qgemm_add_avx512(s, sums[2], scale, addend + 2 * row, is_signed, mask) : first;
    const __m512i fourth =
        rows > 3 ? qgemm_add_avx512(s, sums[3], scale, addend + 3 * row, is_signed, mask) : first;
    qgemm_store_avx512(t, first, second, third, fourth, rows, t->sum->zero, is_signed, dst, mask);
}

static inline __attribute__((always_inline)) void
qgemm_all_sum_bytes_avx512(const struct qgemm_tile *t, const __m512i *sums, int rows, __m512 scale,
                           bool is_signed, uint8_t *dst, __mmask16 mask)
{
    const struct qgemm_sum_avx512 s = qgemm_sum_avx512(t);
    const int64_t four = 4 * t->dst_row;
    qgemm_sum_bytes_avx512(t, &s, sums, rows, scale, is_signed, dst, mask);
    if (rows > 4)
        qgemm_sum_bytes_avx512(t, &s, sums + 4, rows - 4, scale, is_signed, dst + four, mask);
    if (rows > 8)
        qgemm_sum_bytes_avx512(t, &s, sums + 8, rows - 8, scale, is_signed, dst + 2 * four, mask);
    if (rows > 12)
        qgemm_sum_bytes_avx512(t, &s, sums + 12, rows - 12, scale, is_signed, dst + 3 * four, mask);
}

/* Up to 16 rows of bytes. No loop: it would be unrolled too late for sums to stay in registers. */
static inline __attribute__((always_inline)) void
qgemm_all_bytes_avx512(const struct qgemm_tile *t, const __m512i *sums, int rows, __m512 scale,
                       bool is_bounded, bool is_signed, uint8_t *dst, __mmask16 mask)
{
    const int64_t four = 4 * t->dst_row;
    qgemm_bytes_avx512(t, sums, rows, scale, is_bounded, is_signed, dst, mask);
    if (rows > 4)
        qgemm_bytes_avx512(t, sums + 4, rows - 4, scale, is_bounded, is_signed, dst + four, mask);
    if (rows > 8)
        qgemm_bytes_avx512(t, sums + 8, rows - 8, scale, is_bounded, is_signed, dst + 2 * four,
                           mask);
    if (rows > 12)
        qgemm_bytes_avx512(t, sums + 12, rows - 12, scale, is_bounded, is_signed, dst + 3 * four,
                           mask);
}

/* Finishes `rows` rows of a block, from row `first` of the tile on, to `dst`; their sums began with
 * qgemm_start_avx512.
 */
static inline __attribute__((always_inline)) void qgemm_finish_avx512(const struct qgemm_tile *t,
                                                                      __m512i *sums, uint8_t *dst,
                                                                      int first, int rows,
                                                                      int block, int blocks)
{
    const struct qgemm_columns *c = t->columns + block;
    if (t->row_sums != NULL) {
        const __m512i zero = _mm512_loadu_si512(c->w_zero);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++)
            sums[i] = _mm512_sub_epi32(
                sums[i], _mm512_mullo_epi32(_mm512_set1_epi32(t->row_sums[first + i]), zero));
    }
    const __mmask16 mask = block + 1 < blocks ? 0xffff : (__mmask16)((1u << t->last_columns) - 1);
    const __m512 scale = _mm512_loadu_ps(c->scale);
    if (t->addend != NULL) {
        qgemm_all_sum_bytes_avx512(t, sums, rows, scale, t->result == QGEMM_I8, dst, mask);
    } else if (t->result == QGEMM_U8 && c->is_bounded) {
        qgemm_all_bytes_avx512(t, sums, rows, scale, true, false, dst, mask);
    } else if (t->result == QGEMM_I32) {
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
    } else if (c->is_bounded) {
        qgemm_all_bytes_avx512(t, sums, rows, scale, true, true, dst, mask);
    } else {
        qgemm_all_bytes_avx512(t, sums, rows, scale, false, t->result == QGEMM_I8, dst, mask);
    }
}

#endif
