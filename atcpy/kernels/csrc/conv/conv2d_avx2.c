/* conv2d on AVX2: up to 6 results of one output block in 12 accumulators, inputs broadcast. Where a
 * block has 8 channels or fewer, one vector holds them: up to 12 results, as many accumulators.
 */
#include "simd/activation_vector.h"
#include "conv/conv2d.h"
#include "simd/count_up.h"

enum { MAX_BLOCKS = 1, MAX_WIDTH = 6, MAX_WIDTH_OF_HALF = 12, LANES = 8 };

/* One function a (halves, c0, width): the loops over them unroll into registers. */
static inline __attribute__((always_inline)) void micro(const struct conv2d_tile *t, int halves,
                                                        int64_t c0, int width)
{
    __m256 acc[MAX_WIDTH_OF_HALF][2];
#pragma GCC unroll 12
    for (int i = 0; i < width; i++)
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
            acc[i][h] =
                _mm256_loadu_ps((t->first ? t->bias : t->dst + i * t->dst_step) + h * LANES);
    if (t->first && t->residual != NULL)
#pragma GCC unroll 12
        for (int i = 0; i < width; i++)
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++)
                acc[i][h] = _mm256_add_ps(
                    acc[i][h], _mm256_loadu_ps(t->residual + i * t->dst_step + h * LANES));

    for (int64_t c1 = 0; c1 < t->n_c1; c1++) {
        const float *plane = t->in + c1 * t->c1_stride;
        const float *weights = t->weights + c1 * t->weight_c1;
        const int64_t channels = c0 == 1 ? 1 : c1 == t->n_c1 - 1 ? t->c_last : c0;
        for (int64_t tap = 0; tap < t->n_taps; tap++) {
            const float *in = plane + t->taps[tap].in;
            /* One channel a tap: reading the offset would cost as much as the tap. */
            const float *wc = weights + (c0 == 1 ? tap * CONV_C0 : t->taps[tap].weights);
            for (int64_t c = 0; c < channels; c++, in++, wc += CONV_C0) {
                __m256 w[2];
#pragma GCC unroll 2
                for (int h = 0; h < halves; h++)
                    w[h] = _mm256_loadu_ps(wc + h * LANES);
#pragma GCC unroll 12
                for (int i = 0; i < width; i++) {
                    const __m256 x = _mm256_broadcast_ss(in + i * c0);
#pragma GCC unroll 2
                    for (int h = 0; h < halves; h++)
                        acc[i][h] = _mm256_fmadd_ps(x, w[h], acc[i][h]);
                }
            }
        }
    }

    const enum activation activation = t->last ? t->activation : ACT_NONE;
    const __m256 low = _mm256_set1_ps(activation == ACT_CLIP ? t->alpha : 0.0f);
    const __m256 high = _mm256_set1_ps(t->beta);
    if (activation == ACT_RELU || activation == ACT_CLIP)
#pragma GCC unroll 12
        for (int i = 0; i < width; i++)
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++)
                acc[i][h] = _mm256_max_ps(low, acc[i][h]);
    if (activation == ACT_CLIP)
#pragma GCC unroll 12
        for (int i = 0; i < width; i++)
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++)
                acc[i][h] = _mm256_min_ps(high, acc[i][h]);
#pragma GCC unroll 12
    for (int i = 0; i < width; i++)
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
            _mm256_storeu_ps(t->dst + i * t->dst_step + h * LANES, acc[i][h]);
    if (!vf_activates_in_registers(activation))
        activate_stored_avx2(activation, t->dst, width, t->dst_step, halves * LANES, t->alpha,
                             t->beta);
}

#define DEFINE(halves, c0, width)                                                                  \
    static void micro_##halves##_##c0##_##width(const struct conv2d_tile *tile)                    \
    {                                                                                              \
        micro(tile, halves, c0, width);                                                            \
    }
#define NAME(halves, c0, width) micro_##halves##_##c0##_##width,

COUNT_TO_6(DEFINE, 2, 16)
COUNT_TO_6(DEFINE, 2, 1)
COUNT_TO_12(DEFINE, 1, 16)
COUNT_TO_12(DEFINE, 1, 1)

static const conv2d_micro blocked[] = {COUNT_TO_6(NAME, 2, 16)};
static const conv2d_micro plain[] = {COUNT_TO_6(NAME, 2, 1)};
static const conv2d_micro half_blocked[] = {COUNT_TO_12(NAME, 1, 16)};
static const conv2d_micro half_plain[] = {COUNT_TO_12(NAME, 1, 1)};
const struct conv2d_isa conv2d_isa_avx2 = {
    .max_blocks = MAX_BLOCKS,
    .whole = {MAX_WIDTH, blocked, plain},
    .half_blocks = 1,
    .half = {MAX_WIDTH_OF_HALF, half_blocked, half_plain},
    .widen = widen_avx2,
    .vnni = 1,
    .round_bf16 = round_bf16_avx2,
    .take_even = conv2d_take_even_avx2,
};

void conv2d_f32_avx2(const struct kernel_args *args)
{
    conv2d_drive(args, &conv2d_isa_avx2);
}
