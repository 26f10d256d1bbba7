/* What becomes of the sums of 16 columns, in two halves: qgemm_finish.h in registers. */
#ifndef ATC_QGEMM_FINISH_AVX2_H
#define ATC_QGEMM_FINISH_AVX2_H

#include "quant/qgemm.h"

#include <immintrin.h>
#include <string.h>

static inline __m256i qgemm_load_avx2(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

/* sums + a · b, products of words added two by two; and those of unsigned bytes by weights, added
 * four by four, of which two must fit into 16 bits where the ISA has no instruction for all four.
 * `ones` are words. In one piece, as the compiler else moves additions apart and has no registers
 * left for the products, and gcc 12 keeps sums in memory.
 */
#ifdef __AVXVNNI__
static inline __m256i qgemm_add_products_avx2(__m256i sums, __m256i a, __m256i b)
{
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sums) : "x"(a), "x"(b));
    return sums;
}

static inline __m256i qgemm_add_bytes_avx2(__m256i sums, __m256i bytes, const void *weights,
                                           __m256i ones)
{
    (void)ones;
    __asm__("%{vex%} vpdpbusd %2, %1, %0"
            : "+x"(sums)
            : "x"(bytes), "m"(*(const __m256i_u *)weights));
    return sums;
}
#else
static inline __m256i qgemm_add_products_avx2(__m256i sums, __m256i a, __m256i b)
{
    __m256i products;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
            : "+x"(sums), "=&x"(products)
            : "x"(a), "x"(b));
    return sums;
}

static inline __m256i qgemm_add_bytes_avx2(__m256i sums, __m256i bytes, const void *weights,
                                           __m256i ones)
{
    __m256i products;
    __asm__("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
            : "+x"(sums), "=&x"(products)
            : "x"(bytes), "m"(*(const __m256i_u *)weights), "x"(ones));
    return sums;
}
#endif

/* What the sums of columns 8 · half … of a block begin with. */
static inline __m256i qgemm_start_avx2(const struct qgemm_tile *t, int block, int half)
{
    return qgemm_load_avx2(t->columns[block].start + 8 * half);
}

/* Sums as integers that are rounded. Products beyond the integers saturate: NaN and what is too
 * small become the least one, what is too large is cut before.
 */
static inline __m256i qgemm_round_avx2(__m256i sums, __m256 scale, bool is_bounded)
{
    const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale);
    return _mm256_cvtps_epi32(is_bounded ? v : _mm256_min_ps(_mm256_set1_ps(65536), v));
}

/* What an addend needs, in all lanes. */
struct qgemm_sum_avx2 {
    __m256 y_low, y_high, product_scale, addend_scale, offset;
};

static inline struct qgemm_sum_avx2 qgemm_sum_avx2(const struct qgemm_tile *t)
{
    const struct qgemm_sum *s = t->sum;
    const float low = (float)((t->result == QGEMM_I8 ? INT8_MIN : 0) - t->y_zero);
    return (struct qgemm_sum_avx2){
        .y_low = _mm256_set1_ps(low),
        .y_high = _mm256_set1_ps(low + 255),
        .product_scale = _mm256_set1_ps(s->product_scale),
        .addend_scale = _mm256_set1_ps(s->addend_scale),
        .offset = _mm256_set1_ps(s->offset),
    };
}

/* Sums as numbers of y, plus eight bytes of the addend, rounded less the zero point of what they
 * make.
 */
static inline __m256i qgemm_add_avx2(const struct qgemm_sum_avx2 *s, __m256i sums, __m256 scale,
                                     __m128i addend, bool is_signed)
{
    __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale);
    y = _mm256_min_ps(_mm256_max_ps(y, s->y_low), s->y_high); /* NaN too: the second operand */
    y = _mm256_round_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i words = is_signed ? _mm256_cvtepi8_epi32(addend) : _mm256_cvtepu8_epi32(addend);
    const __m256 more = _mm256_fmadd_ps(_mm256_cvtepi32_ps(words), s->addend_scale, s->offset);
    return _mm256_cvtps_epi32(_mm256_fmadd_ps(y, s->product_scale, more));
}

/* One or two rows of rounded sums as bytes, saturated. */
static inline __attribute__((always_inline)) void qgemm_store_avx2(const struct qgemm_tile *t,
                                                                   __m256i rounded[2][2], int rows,
                                                                   int32_t y_zero, uint8_t *dst,
                                                                   size_t columns)
{
    const __m256i zero = _mm256_set1_epi16((short)y_zero);
    const __m256i first = _mm256_adds_epi16(_mm256_packs_epi32(rounded[0][0], rounded[0][1]), zero);
    const __m256i second =
        rows > 1 ? _mm256_adds_epi16(_mm256_packs_epi32(rounded[1][0], rounded[1][1]), zero)
                 : first;
    const __m256i mixed = t->result == QGEMM_I8 ? _mm256_packs_epi16(first, second)
                                                : _mm256_packus_epi16(first, second);
    /* Each half has columns 0 … 3 and 8 … 11, or the others, of both rows. */
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    if (columns == QGEMM_PANEL) {
        _mm_storeu_si128((__m128i *)(void *)dst, _mm256_castsi256_si128(bytes));
        if (rows > 1)
            _mm_storeu_si128((__m128i *)(void *)(dst + t->dst_row),
                             _mm256_extracti128_si256(bytes, 1));
        return;
    }
    uint8_t both[2 * QGEMM_PANEL];
    _mm256_storeu_si256((__m256i *)(void *)both, bytes);
    memcpy(dst, both, columns);
    if (rows > 1)
        memcpy(dst + t->dst_row, both + QGEMM_PANEL, columns);
}

static inline __attribute__((always_inline)) void
qgemm_bytes_avx2(const struct qgemm_tile *t, __m256i sums[][2], uint8_t *dst, int rows,
                 const struct qgemm_columns *c, bool is_bounded, size_t columns)
{
    const __m256 scale[2] = {_mm256_loadu_ps(c->scale), _mm256_loadu_ps(c->scale + 8)};
#pragma GCC unroll 6
    for (int i = 0; i < rows; i += 2) {
        __m256i rounded[2][2];
        for (int r = 0; r < 2 && i + r < rows; r++)
            for (int h = 0; h < 2; h++)
                rounded[r][h] = qgemm_round_avx2(sums[i + r][h], scale[h], is_bounded);
        qgemm_store_avx2(t, rounded, rows - i, t->y_zero, dst + i * t->dst_row, columns);
    }
}

static inline __attribute__((always_inline)) void
qgemm_sum_bytes_avx2(const struct qgemm_tile *t, __m256i sums[][2], uint8_t *dst, int rows,
                     const struct qgemm_columns *c, bool is_signed, size_t columns)
{
    const struct qgemm_sum_avx2 s = qgemm_sum_avx2(t);
    const __m256 scale[2] = {_mm256_loadu_ps(c->scale), _mm256_loadu_ps(c->scale + 8)};
    const uint8_t *addend = t->addend + (dst - t->dst);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i += 2) {
        __m256i rounded[2][2];
        for (int r = 0; r < 2 && i + r < rows; r++, addend += t->dst_row) {
            __m128i bytes = _mm_setzero_si128();
            if (columns == QGEMM_PANEL)
                bytes = _mm_loadu_si128((const __m128i *)(const void *)addend);
            else
                memcpy(&bytes, addend, columns);
            rounded[r][0] = qgemm_add_avx2(&s, sums[i + r][0], scale[0], bytes, is_signed);
            rounded[r][1] = qgemm_add_avx2(&s, sums[i + r][1], scale[1],
                                           _mm_unpackhi_epi64(bytes, bytes), is_signed);
        }
        qgemm_store_avx2(t, rounded, rows - i, t->sum->zero, dst + i * t->dst_row, columns);
    }
}

static inline __attribute__((always_inline)) void qgemm_copy_avx2(const __m256i numbers[2],
                                                                  uint8_t *dst, size_t columns)
{
    if (columns != QGEMM_PANEL) {
        memcpy(dst, numbers, columns * sizeof(int32_t));
        return;
    }
    _mm256_storeu_si256((__m256i *)(void *)dst, numbers[0]);
    _mm256_storeu_si256((__m256i *)(void *)(dst + sizeof *numbers), numbers[1]);
}

/* Finishes `rows` rows of a block, from row `first` of the tile on, to `dst`; their sums began with
 * qgemm_start_avx2.
 */
static inline __attribute__((always_inline)) void qgemm_finish_avx2(const struct qgemm_tile *t,
                                                                    __m256i sums[][2], uint8_t *dst,
                                                                    int first, int rows, int block,
                                                                    int blocks)
{
    const struct qgemm_columns *c = t->columns + block;
    if (t->row_sums != NULL) {
        const __m256i zero[2] = {qgemm_load_avx2(c->w_zero), qgemm_load_avx2(c->w_zero + 8)};
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++)
                sums[i][h] = _mm256_sub_epi32(
                    sums[i][h],
                    _mm256_mullo_epi32(_mm256_set1_epi32(t->row_sums[first + i]), zero[h]));
    }
    const size_t columns = block + 1 < blocks ? QGEMM_PANEL : (size_t)t->last_columns;
    if (t->addend != NULL) {
        qgemm_sum_bytes_avx2(t, sums, dst, rows, c, t->result == QGEMM_I8, columns);
    } else if (t->result == QGEMM_I32) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
            qgemm_copy_avx2(sums[i], dst + i * t->dst_row, columns);
    } else if (t->result == QGEMM_F32) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            __m256i numbers[2];
            for (int h = 0; h < 2; h++)
                numbers[h] = _mm256_castps_si256(
                    _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[i][h]),
                                                _mm256_loadu_ps(c->scale + 8 * h)),
                                  _mm256_loadu_ps(c->bias + 8 * h)));
            qgemm_copy_avx2(numbers, dst + i * t->dst_row, columns);
        }
    } else if (c->is_bounded) {
        qgemm_bytes_avx2(t, sums, dst, rows, c, true, columns);
    } else {
        qgemm_bytes_avx2(t, sums, dst, rows, c, false, columns);
    }
}

#endif
