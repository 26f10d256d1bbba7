/* What becomes of the sums of 16 columns: qgemm_finish.h in registers. */
#ifndef ATC_QGEMM_FINISH_AVX512_H
#define ATC_QGEMM_FINISH_AVX512_H

#include "quant/qgemm.h"

#include <immintrin.h>

static inline __attribute__((always_inline)) void
qgemm_finish_avx512(const struct qgemm_tile *t, __m512i sum, int row, int block, int blocks)
{
    const struct qgemm_columns *c = t->columns + block;
    __m512i total = _mm512_add_epi32(sum, _mm512_loadu_si512(c->start));
    if (t->row_sums != NULL)
        total = _mm512_sub_epi32(total, _mm512_mullo_epi32(_mm512_set1_epi32(t->row_sums[row]),
                                                           _mm512_loadu_si512(c->w_zero)));
    uint8_t *dst = t->dst + row * t->dst_row + block * t->dst_panel;
    const __mmask16 mask = block + 1 < blocks ? 0xffff : (__mmask16)((1u << t->last_columns) - 1);
    if (t->result == QGEMM_I32) {
        _mm512_mask_storeu_epi32(dst, mask, total);
        return;
    }
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(total), _mm512_loadu_ps(c->scale));
    if (t->result == QGEMM_F32) {
        v = _mm512_add_ps(v, _mm512_loadu_ps(c->bias));
        _mm512_mask_storeu_ps(dst, mask, v);
        return;
    }
    const int32_t low = (t->result == QGEMM_I8 ? INT8_MIN : 0) - t->y_zero;
    v = _mm512_max_ps(v, _mm512_set1_ps((float)low)); /* NaN too: the second operand */
    v = _mm512_min_ps(v, _mm512_set1_ps((float)(low + 255)));
    const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(t->y_zero));
    _mm512_mask_cvtepi32_storeu_epi8(dst, mask, q);
}

#endif
