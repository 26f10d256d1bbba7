/* The micro-kernel of conv2d on AVX-512: up to 14 results of two output blocks in 28 accumulators,
 * inputs broadcast. Rows for float32 and for pairs of bfloat16 differ in one instruction, which
 * they bring, and in step, which counts floats or pairs.
 */
#ifndef ATC_CONV2D_MICRO_AVX512_H
#define ATC_CONV2D_MICRO_AVX512_H

#include "conv/conv2d.h"
#include "simd/activation_vector.h"
#include "simd/count_up.h"

enum {
    MAX_BLOCKS = 2,
    MAX_WIDTH = 14,
    BF16_STEP = CONV_C0 / 2, /* floats from one result of bfloat16 to the next */
};

/* sum + x · w, where a lane of x and w is a float or a pair of bfloat16. */
typedef __m512 (*multiply_add_fn)(__m512 sum, __m512 x, __m512 w);

/* Rounds sixteen results to bfloat16, and stores them. */
typedef void (*store_bf16_fn)(float *to, __m512 x);

static inline __m512 load_bf16(const float *at)
{
    return vf_load_bf16((const uint16_t *)at);
}

/* One function a (blocks, width, step): the loops over them unroll into registers. Residuals and
 * results are floats unless the row brings `store_bf16`.
 */
static inline __attribute__((always_inline)) void micro(const struct conv2d_tile *t, int blocks,
                                                        int width, int64_t step,
                                                        multiply_add_fn multiply_add,
                                                        store_bf16_fn store_bf16)
{
    __m512 acc[MAX_BLOCKS][MAX_WIDTH];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[b][i] = t->first ? _mm512_loadu_ps(t->bias + b * CONV_C0)
                                 : _mm512_loadu_ps(t->dst + b * t->dst_stride + i * t->dst_step);
    if (store_bf16 != NULL && t->first && t->residual != NULL && t->residual_bf16)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
            for (int i = 0; i < width; i++)
                acc[b][i] = _mm512_add_ps(
                    acc[b][i], load_bf16(t->residual + b * t->residual_stride + i * BF16_STEP));
    else if (t->first && t->residual != NULL)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
            for (int i = 0; i < width; i++)
                acc[b][i] =
                    _mm512_add_ps(acc[b][i], _mm512_loadu_ps(t->residual + b * t->residual_stride +
                                                             i * t->residual_step));

    const int64_t w_stride = t->weight_stride;
    const float *prefetched = t->prefetched;
    for (int64_t c1 = 0; c1 < t->n_c1; c1++) {
        const float *plane = t->in + c1 * t->c1_stride;
        const float *weights = t->weights + c1 * t->weight_c1;
        const int64_t channels = conv2d_is_plain(step) ? 1 : c1 == t->n_c1 - 1 ? t->c_last : step;
        for (int64_t tap = 0; tap < t->n_taps; tap++) {
            const float *in = plane + t->taps[tap].in;
            /* One channel a tap: reading the offset would cost as much as the tap. */
            const float *wc =
                weights + (conv2d_is_plain(step) ? tap * CONV_C0 : t->taps[tap].weights);
            prefetched = conv2d_prefetch(prefetched, conv2d_is_plain(step) ? 1 : step);
            for (int64_t c = 0; c < channels; c++, in++, wc += CONV_C0) {
                __m512 wv[MAX_BLOCKS];
#pragma GCC unroll 2
                for (int b = 0; b < blocks; b++)
                    wv[b] = _mm512_loadu_ps(wc + b * w_stride);
#pragma GCC unroll 14
                for (int i = 0; i < width; i++) {
                    const __m512 x = _mm512_set1_ps(in[i * step]);
#pragma GCC unroll 2
                    for (int b = 0; b < blocks; b++)
                        acc[b][i] = multiply_add(acc[b][i], x, wv[b]);
                }
            }
        }
    }

    const enum activation activation = t->last ? t->activation : ACT_NONE;
    const __m512 low = _mm512_set1_ps(activation == ACT_CLIP ? t->alpha : 0.0f);
    const __m512 high = _mm512_set1_ps(t->beta);
    if (activation == ACT_RELU || activation == ACT_CLIP)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
            for (int i = 0; i < width; i++)
                acc[b][i] = _mm512_max_ps(low, acc[b][i]);
    if (activation == ACT_CLIP)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
            for (int i = 0; i < width; i++)
                acc[b][i] = _mm512_min_ps(high, acc[b][i]);
    if (store_bf16 != NULL && t->dst_bf16) {
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
            for (int i = 0; i < width; i++)
                store_bf16(t->dst + b * t->dst_stride + i * BF16_STEP, acc[b][i]);
        return;
    }
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            _mm512_storeu_ps(t->dst + b * t->dst_stride + i * t->dst_step, acc[b][i]);
    if (!activates_in_registers(activation))
        for (int b = 0; b < blocks; b++)
            activate_stored_avx512f(activation, t->dst + b * t->dst_stride, width, t->dst_step,
                                    CONV_C0, t->alpha, t->beta);
}

#endif
