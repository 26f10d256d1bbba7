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

static inline __m256i qgemm_round_avx2(const struct qgemm_tile *t, __m256 v, int32_t zero)
{
    const int32_t low = (t->result == QGEMM_I8 ? INT8_MIN : 0) - zero;
    v = _mm256_max_ps(v, _mm256_set1_ps((float)low)); /* NaN too: the second operand */
    v = _mm256_min_ps(v, _mm256_set1_ps((float)(low + 255)));
    const __m256i q = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(zero));
    return _mm256_and_si256(q, _mm256_set1_epi32(0xff));
}

/* Numbers of y less its zero point, plus `columns` bytes of the addend: less the zero point of
 * sums. */
static inline __m256 qgemm_add_avx2(const struct qgemm_tile *t, __m256 v, const uint8_t *addend,
                                    int64_t columns)
{
    const struct qgemm_sum *s = t->sum;
    const float low = (float)((t->result == QGEMM_I8 ? INT8_MIN : 0) - t->y_zero);
    v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(low)), _mm256_set1_ps(low + 255));
    const __m256 y = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    uint64_t eight = 0;
    memcpy(&eight, addend, columns >= 8 ? 8 : columns > 0 ? (size_t)columns : 0);
    const __m128i bytes = _mm_cvtsi64_si128((int64_t)eight);
    const __m256i other =
        t->result == QGEMM_I8 ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
    const __m256 more = _mm256_mul_ps(
        _mm256_cvtepi32_ps(_mm256_sub_epi32(other, _mm256_set1_epi32(s->addend_zero))),
        _mm256_set1_ps(s->addend_scale));
    const __m256 sum = _mm256_add_ps(_mm256_mul_ps(y, _mm256_set1_ps(s->product_scale)), more);
    return _mm256_div_ps(sum, _mm256_set1_ps(s->scale));
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
    int32_t zero = t->y_zero;
    if (t->addend != NULL) {
        const uint8_t *addend = t->addend + (dst - t->dst);
        for (int half = 0; half < 2; half++)
            v[half] = qgemm_add_avx2(t, v[half], addend + 8 * half, (int64_t)columns - 8 * half);
        zero = t->sum->zero;
    }
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(qgemm_round_avx2(t, v[0], zero), qgemm_round_avx2(t, v[1], zero)),
        0xd8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    if (columns == QGEMM_PANEL)
        _mm_storeu_si128((__m128i *)(void *)dst, bytes);
    else
        memcpy(dst, &bytes, columns);
}

#endif
