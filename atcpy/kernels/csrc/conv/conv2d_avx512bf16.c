/* conv2d of bfloat16 on AVX512-BF16: as on AVX-512, but each instruction multiplies pairs of
 * channels. */
#include "simd/activation_vector.h"
#include "conv/conv2d.h"
#include "simd/count_up.h"

enum { MAX_BLOCKS = 2, MAX_WIDTH = 14, PAIRS = CONV_C0 / 2 };

/* Prefetches the weights of one tap, and returns where those of the next one lie. */
static inline __attribute__((always_inline)) const float *prefetch(const float *weights)
{
    if (weights == NULL)
        return NULL;
#pragma GCC unroll 8
    for (int64_t c = 0; c < PAIRS; c++)
        __builtin_prefetch(weights + c * CONV_C0, 0, 2);
    return weights + PAIRS * CONV_C0;
}

/* One function a (blocks, width): the loops over them unroll into registers. */
static inline __attribute__((always_inline)) void micro(const struct conv2d_tile *t, int blocks,
                                                        int width)
{
    __m512 acc[MAX_BLOCKS][MAX_WIDTH];
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[b][i] = t->first ? _mm512_loadu_ps(t->bias + b * CONV_C0)
                                 : _mm512_loadu_ps(t->dst + b * t->dst_stride + i * t->dst_step);
    if (t->first && t->residual != NULL)
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
            for (int i = 0; i < width; i++)
                acc[b][i] = _mm512_add_ps(
                    acc[b][i], _mm512_loadu_ps(t->residual + b * t->dst_stride + i * t->dst_step));

    const int64_t w_stride = t->weight_stride;
    const float *prefetched = t->prefetched;
    for (int64_t c1 = 0; c1 < t->n_c1; c1++) {
        const float *plane = t->in + c1 * t->c1_stride;
        const float *weights = t->weights + c1 * t->weight_c1;
        const int64_t channels = c1 == t->n_c1 - 1 ? t->c_last : PAIRS;
        for (int64_t tap = 0; tap < t->n_taps; tap++) {
            const float *in = plane + t->taps[tap].in;
            const float *wc = weights + t->taps[tap].weights;
            prefetched = prefetch(prefetched);
            for (int64_t c = 0; c < channels; c++, in++, wc += CONV_C0) {
                __m512 wv[MAX_BLOCKS];
#pragma GCC unroll 2
                for (int b = 0; b < blocks; b++)
                    wv[b] = _mm512_loadu_ps(wc + b * w_stride);
#pragma GCC unroll 14
                for (int i = 0; i < width; i++) {
                    const __m512bh x = (__m512bh)_mm512_set1_ps(in[i * PAIRS]);
#pragma GCC unroll 2
                    for (int b = 0; b < blocks; b++)
                        acc[b][i] = _mm512_dpbf16_ps(acc[b][i], (__m512bh)wv[b], x);
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
#pragma GCC unroll 2
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            _mm512_storeu_ps(t->dst + b * t->dst_stride + i * t->dst_step, acc[b][i]);
    if (!vf_activates_in_registers(activation))
        for (int b = 0; b < blocks; b++)
            activate_stored_avx512f(activation, t->dst + b * t->dst_stride, width, t->dst_step,
                                    CONV_C0, t->alpha, t->beta);
}

#define DEFINE(blocks, width)                                                                      \
    static void micro_##blocks##_##width(const struct conv2d_tile *tile)                           \
    {                                                                                              \
        micro(tile, blocks, width);                                                                \
    }
#define NAME(blocks, width) micro_##blocks##_##width,

COUNT_TO_14(DEFINE, 1)
COUNT_TO_14(DEFINE, 2)

static const conv2d_micro blocked[] = {COUNT_TO_14(NAME, 1) COUNT_TO_14(NAME, 2)};
static const struct conv2d_isa isa = {
    .max_blocks = MAX_BLOCKS,
    .whole = {MAX_WIDTH, blocked, NULL},
    .vnni = 2,
    .round_bf16 = round_bf16_avx512bf16,
};

void conv2d_f32_avx512bf16(const struct kernel_args *args)
{
    conv2d_drive(args, &isa);
}
