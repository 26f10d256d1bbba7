/* What becomes of the sums of 16 columns, in two halves: qgemm_finish.h in registers. */
#ifndef ATC_QGEMM_FINISH_AVX2_H
#define ATC_QGEMM_FINISH_AVX2_H

#include "quant/qgemm.h"

#include <immintrin.h>
#include <string.h>

static inline __m256i qgemm_load_avx2(const int32_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* The sums of columns 8 · half …, with what belongs to their row and columns. */
static inline __m256i qgemm_total_avx2(const struct qgemm_tile *t, __m256i sum, int row,
                                       const struct qgemm_columns *c, int half)
{
    const __m256i total = _mm256_add_epi32(sum, qgemm_load_avx2(c->start + 8 * half));
    if (t->row_sums == NULL)
        return total;
    const __m256i zero = qgemm_load_avx2(c->w_zero + 8 * half);
    return _mm256_sub_epi32(total, _mm256_mullo_epi32(_mm256_set1_epi32(t->row_sums[row]), zero));
}

static inline __m256i qgemm_round_avx2(const struct qgemm_tile *t, __m256 v)
{
    const int32_t low = (t->result == QGEMM_I8 ? INT8_MIN : 0) - t->y_zero;
    v = _mm256_max_ps(v, _mm256_set1_ps((float)low)); /* NaN too: the second operand */
    v = _mm256_min_ps(v, _mm256_set1_ps((float)(low + 255)));
    const __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(t->y_zero));
    return _mm256_and_si256(q, _mm256_set1_epi32(0xff));
}

static inline void qgemm_finish_avx2(const struct qgemm_tile *t, __m256i low, __m256i high, int row,
                                     int block, int blocks)
{
    const struct qgemm_columns *c = t->columns + block;
    const __m256i total[2] = {qgemm_total_avx2(t, low, row, c, 0),
                              qgemm_total_avx2(t, high, row, c, 1)};
    uint8_t *dst = t->dst + row * t->dst_row + block * t->dst_panel;
    const size_t columns = block + 1 < blocks ? QGEMM_PANEL : (size_t)t->last_columns;
    if (t->result == QGEMM_I32) {
        memcpy(dst, total, columns * sizeof(int32_t));
        return;
    }
    __m256 v[2];
    for (int half = 0; half < 2; half++)
        v[half] =
            _mm256_mul_ps(_mm256_cvtepi32_ps(total[half]), _mm256_loadu_ps(c->scale + 8 * half));
    if (t->result == QGEMM_F32) {
        for (int half = 0; half < 2; half++)
            v[half] = _mm256_add_ps(v[half], _mm256_loadu_ps(c->bias + 8 * half));
        memcpy(dst, v, columns * sizeof(float));
        return;
    }
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(qgemm_round_avx2(t, v[0]), qgemm_round_avx2(t, v[1])), 0xd8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    if (columns == QGEMM_PANEL)
        _mm_storeu_si128((__m128i *)(void *)dst, bytes);
    else
        memcpy(dst, &bytes, columns);
}

#endif
