/* argreduce of floats, sixteen columns or sixteen elements of a row at a time. */
#include "core/pieces.h"
#include "reduce/argreduce.h"

#include <immintrin.h>

enum { VF = 16 };

static inline __mmask16 first_lanes(int64_t n)
{
    return n >= VF ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* Where v replaces best, as in argreduce_scalar.c: an unordered compare lets a NaN beat
 * every number, and only numbers are beaten, but for the last of several NaN.
 */
static inline __mmask16 beats(__m512 v, __m512 best, bool max, bool last)
{
    const __mmask16 number = _mm512_cmp_ps_mask(best, best, _CMP_ORD_Q);
    if (!last)
        return max ? _mm512_mask_cmp_ps_mask(number, v, best, _CMP_NLE_UQ)
                   : _mm512_mask_cmp_ps_mask(number, v, best, _CMP_NGE_UQ);
    return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) |
           (max ? _mm512_mask_cmp_ps_mask(number, v, best, _CMP_NLT_UQ)
                : _mm512_mask_cmp_ps_mask(number, v, best, _CMP_NGT_UQ));
}

/* Elements of up to sixteen results: neighbours, or every `apart`-th. */
static inline __m512 load_lanes(const float *src, __mmask16 lanes, int64_t apart)
{
    if (apart == 1)
        return _mm512_maskz_loadu_ps(lanes, src);
    const __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_mullo_epi32(order, _mm512_set1_epi32((int)apart));
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes, at, src, 4);
}

/* Up to sixteen results, a lane each: of n elements that lie `stride` apart, which begin `apart`
 * from those of the lane before.
 */
static inline void reduce_lanes(const struct kernel_args *args, const float *src, int64_t stride,
                                int64_t n, int64_t apart, int64_t results, int64_t *dst, bool max,
                                bool last)
{
    const __mmask16 lanes = first_lanes(results);
    __m512 best = load_lanes(src, lanes, apart);
    __m512i index = _mm512_setzero_si512();
    for (struct atc_piece piece = {1, 1}; atc_next_piece(args, &piece, n);)
        for (int64_t k = piece.begin; k < piece.end; k++) {
            const __m512 v = load_lanes(src + k * stride, lanes, apart);
            const __mmask16 better = beats(v, best, max, last);
            best = _mm512_mask_mov_ps(best, better, v);
            index = _mm512_mask_set1_epi32(index, better, (int)k);
        }
    const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(index));
    const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(index, 1));
    _mm512_mask_storeu_epi64(dst, (__mmask8)lanes, low);
    _mm512_mask_storeu_epi64(dst + VF / 2, (__mmask8)(lanes >> 8), high);
}

/* One result: each lane reduces every sixteenth element, then the lanes are compared. */
static inline int64_t reduce_row(const struct kernel_args *args, const float *src, int64_t n,
                                 bool max, bool last)
{
    const __m512i step = _mm512_set1_epi32(VF);
    __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i index = at;
    __m512 best = n >= VF ? _mm512_loadu_ps(src) : _mm512_maskz_loadu_ps(first_lanes(n), src);
    for (struct atc_piece piece = {VF, VF}; atc_next_piece(args, &piece, n);)
        for (int64_t k = piece.begin; k < piece.end; k += VF) {
            const __mmask16 lanes = first_lanes(n - k);
            /* Masked loads do not make the CPU read ahead. */
            const __m512 v =
                n - k >= VF ? _mm512_loadu_ps(src + k) : _mm512_maskz_loadu_ps(lanes, src + k);
            const __mmask16 better = lanes & beats(v, best, max, last);
            at = _mm512_add_epi32(at, step);
            best = _mm512_mask_mov_ps(best, better, v);
            index = _mm512_mask_mov_epi32(index, better, at);
        }
    /* The largest of the lanes, or a NaN; of equal ones the first or the last element. */
    const __mmask16 lanes = first_lanes(n);
    const float most =
        max ? _mm512_mask_reduce_max_ps(lanes, best) : _mm512_mask_reduce_min_ps(lanes, best);
    __mmask16 found = _mm512_mask_cmp_ps_mask(lanes, best, best, _CMP_UNORD_Q);
    if (found == 0)
        found = _mm512_mask_cmp_ps_mask(lanes, best, _mm512_set1_ps(most), _CMP_EQ_OQ);
    return last ? _mm512_mask_reduce_max_epi32(found, index)
                : _mm512_mask_reduce_min_epi32(found, index);
}

/* Rows that are shorter than a vector: sixteen rows at a time. */
static inline void reduce_short_rows(const struct kernel_args *args, bool max, bool last)
{
    const struct argreduce_params *p = args->params;
    const float *src = args->src[0];
    int64_t *dst = args->dst[0];
    for (int64_t row = args->begin; row < args->end; row += VF)
        reduce_lanes(args, src + row * p->n, 1, p->n, p->n, args->end - row, dst + row, max, last);
}

static inline void reduce_items(const struct kernel_args *args, bool max, bool last)
{
    const struct argreduce_params *p = args->params;
    if (p->inner == 1 && p->n < VF) {
        reduce_short_rows(args, max, last);
        return;
    }
    const int64_t chunks = ceil_div(p->inner, ARG_COLUMNS);
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t outer = item / chunks, column = item % chunks * ARG_COLUMNS;
        const int64_t columns = min_i64(ARG_COLUMNS, p->inner - column);
        const float *src = (const float *)args->src[0] + outer * p->n * p->inner + column;
        int64_t *dst = (int64_t *)args->dst[0] + outer * p->inner + column;
        if (p->inner == 1)
            *dst = reduce_row(args, src, p->n, max, last);
        else
            for (int64_t c = 0; c < columns; c += VF)
                reduce_lanes(args, src + c, p->inner, p->n, 1, columns - c, dst + c, max, last);
    }
}

void argreduce_f32_avx512f(const struct kernel_args *args)
{
    argreduce_run(args, reduce_items);
}
