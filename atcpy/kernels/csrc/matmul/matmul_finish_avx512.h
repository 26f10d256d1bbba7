/* What becomes of the sums of matmul's tiles on AVX-512: scale, bias, activation. */
#ifndef ATC_MATMUL_FINISH_AVX512_H
#define ATC_MATMUL_FINISH_AVX512_H

#include "matmul/matmul.h"
#include "simd/activation_vector.h"

enum { LANES = 16 };

/* The lanes of a panel that hold results. */
static inline __mmask16 panel_mask(const struct matmul_tile *t, int block)
{
    const int64_t left = t->columns - (int64_t)block * MATMUL_PANEL;
    return (__mmask16)((1u << min_i64(left, MATMUL_PANEL)) - 1);
}

static inline __attribute__((always_inline)) __m512 finish(const struct matmul_tile *t, __m512 sum,
                                                           int row, int block, __mmask16 mask)
{
    if (t->scale != 1)
        sum = _mm512_mul_ps(sum, _mm512_set1_ps(t->scale));
    if (t->bias != NULL) {
        const float *bias = t->bias + row * t->bias_row + block * LANES * t->bias_col;
        const __m512 b =
            t->bias_col == 0 ? _mm512_set1_ps(*bias) : _mm512_maskz_loadu_ps(mask, bias);
        sum = _mm512_fmadd_ps(b, _mm512_set1_ps(t->bias_scale), sum);
    }
    return t->activation == ACT_RELU ? _mm512_max_ps(_mm512_setzero_ps(), sum) : sum;
}

/* Other activations go over results that are stored and still in L1: within the micro-kernels they
 * would have to make room among its accumulators.
 */
static __attribute__((noinline)) void activate_tile(const struct matmul_tile *t, int blocks,
                                                    int rows)
{
    for (int b = 0; b < blocks; b++) {
        const __mmask16 mask = panel_mask(t, b);
        if (mask == 0xffff) {
            activate_stored_avx512f(t->activation, t->dst + b * LANES, rows, t->y_row, LANES,
                                    t->alpha, t->beta);
            continue;
        }
        for (int i = 0; i < rows; i++) {
            float *y = t->dst + i * t->y_row + b * LANES;
            const __m512 sum = _mm512_maskz_loadu_ps(mask, y);
            _mm512_mask_storeu_ps(y, mask, vf_activate(t->activation, sum, t->alpha, t->beta));
        }
    }
}

static inline bool activates_later(const struct matmul_tile *t)
{
    return t->last && t->activation != ACT_NONE && t->activation != ACT_RELU;
}

#endif
