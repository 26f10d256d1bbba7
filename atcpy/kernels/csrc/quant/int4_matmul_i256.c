/* int4_matmul in vectors of 256 bits: a panel in two halves. */
#include "quant/int4_matmul_loops.h"

#include <immintrin.h>

static inline __m256i four(const int8_t *at)
{
    int32_t word;
    memcpy(&word, at, sizeof word);
    return _mm256_set1_epi32(word);
}

/* Zero points less 8, which the sums begin with. */
static inline __m256 zeros_of(const uint8_t *at)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)at);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(8)));
}

/* sums + products of weights of even and of odd k by signed bytes of x, four each. */
#ifdef __AVXVNNI__
static inline __m256i add_products(__m256i sums, __m256i even, __m256i odd, __m256i x_even,
                                   __m256i x_odd)
{
    return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(sums, even, x_even), odd, x_odd);
}
#else
/* A product of 15 · 127, twice, fits into 16 bits. */
static inline __m256i add_products(__m256i sums, __m256i even, __m256i odd, __m256i x_even,
                                   __m256i x_odd)
{
    const __m256i pairs =
        _mm256_add_epi16(_mm256_maddubs_epi16(even, x_even), _mm256_maddubs_epi16(odd, x_odd));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

static inline __attribute__((always_inline)) void micro(const struct int4_tile *t, int digits)
{
    const __m256i mask = _mm256_set1_epi8(15);
    const uint8_t *w = t->w;
    const int8_t *x = t->x;
    __m256 total[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t b = 0; b < t->blocks; b++) {
        __m256i acc[2][3];
#pragma GCC unroll 2
        for (int c = 0; c < 2; c++)
#pragma GCC unroll 3
            for (int d = 0; d < digits; d++)
                acc[c][d] = _mm256_set1_epi32(t->steps[b].start[d]);
        for (int64_t s = 0; s < t->block_steps; s++, w += INT4_BYTES, x += INT4_STEP * digits)
#pragma GCC unroll 2
            for (int c = 0; c < 2; c++) {
                const __m256i both =
                    _mm256_loadu_si256((const __m256i *)(const void *)(w + c * INT4_BYTES / 2));
                const __m256i even = _mm256_and_si256(both, mask);
                const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
#pragma GCC unroll 3
                for (int d = 0; d < digits; d++)
                    acc[c][d] = add_products(acc[c][d], even, odd, four(x + d * 4),
                                             four(x + (digits + d) * 4));
            }
        const struct int4_steps *step = t->steps + b;
#pragma GCC unroll 2
        for (int c = 0; c < 2; c++) {
            const int64_t at = b * INT4_PANEL + c * 8;
            __m256 sum;
            if (digits == 3) {
                const __m256i low = _mm256_add_epi32(_mm256_slli_epi32(acc[c][1], 8), acc[c][0]);
                sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(acc[c][2]), _mm256_set1_ps(65536),
                                      _mm256_cvtepi32_ps(low));
            } else {
                sum = _mm256_cvtepi32_ps(acc[c][0]);
            }
            if (t->zeros != NULL)
                sum = _mm256_fnmadd_ps(zeros_of(t->zeros + at), _mm256_set1_ps(step->sum), sum);
            const __m256 scale =
                _mm256_mul_ps(_mm256_loadu_ps(t->scales + at), _mm256_set1_ps(step->step));
            total[c] = _mm256_fmadd_ps(sum, scale, total[c]);
        }
        if (atc_spend(t->meter, 2 * t->block_steps))
            return;
    }
    memcpy(t->y, total, (size_t)t->last_columns * sizeof(float));
}

static void micro_1(const struct int4_tile *t)
{
    micro(t, 1);
}

static void micro_3(const struct int4_tile *t)
{
    micro(t, 3);
}

void FOR_ISA(int4_matmul_f32)(const struct kernel_args *args)
{
    static const int4_micro one[] = {micro_1}, three[] = {micro_3};
    const struct int4_matmul_params *p = args->params;
    int4_items(args, &(struct int4_isa){1, 1, p->digits == 3 ? three : one});
}
