/* conv2d on AVX-512. Where the second block has 8 channels or fewer, a vector holds those of two
 * results: 21 accumulators do.
 */
#include "conv/conv2d_few_avx512.h"
#include "conv/conv2d_micro_avx512.h"

static inline __attribute__((always_inline)) __m512 multiply_add(__m512 sum, __m512 x, __m512 w)
{
    return _mm512_fmadd_ps(x, w, sum);
}

/* The first 8 channels of two results, or of one. */
static inline __m512 load_pair(const float *first, const float *second)
{
    const __m512 low = _mm512_castps256_ps512(_mm256_loadu_ps(first));
    return second == NULL ? low : _mm512_insertf32x8(low, _mm256_loadu_ps(second), 1);
}

static inline __m512 load_twice(const float *at)
{
    return _mm512_broadcast_f32x8(_mm256_loadu_ps(at));
}

/* A block, and 8 channels or fewer of the next one, whose accumulators are those of pairs of
 * results.
 */
static inline __attribute__((always_inline)) void micro_half(const struct conv2d_tile *t, int width,
                                                             int64_t step)
{
    enum { MAX_PAIRS = MAX_WIDTH / 2 };
    const int pairs = (width + 1) / 2, odd = width % 2;
    const int64_t dst_step = t->dst_step;
    float *dst = t->dst, *half_dst = t->dst + t->dst_stride;
    __m512 acc[MAX_WIDTH], half[MAX_PAIRS];
#define SECOND(from, step, j) (odd && (j) == pairs - 1 ? NULL : (from) + (2 * (j) + 1) * (step))
#pragma GCC unroll 14
    for (int i = 0; i < width; i++)
        acc[i] = _mm512_loadu_ps(t->first ? t->bias : dst + i * dst_step);
#pragma GCC unroll 7
    for (int j = 0; j < pairs; j++)
        half[j] = t->first ? load_twice(t->bias + CONV_C0)
                           : load_pair(half_dst + 2 * j * dst_step, SECOND(half_dst, dst_step, j));
    if (t->first && t->residual != NULL) {
        const float *half_residual = t->residual + t->residual_stride;
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[i] = _mm512_add_ps(acc[i], _mm512_loadu_ps(t->residual + i * t->residual_step));
#pragma GCC unroll 7
        for (int j = 0; j < pairs; j++)
            half[j] = _mm512_add_ps(half[j], load_pair(half_residual + 2 * j * t->residual_step,
                                                       SECOND(half_residual, t->residual_step, j)));
    }

    const float *prefetched = t->prefetched;
    for (int64_t c1 = 0; c1 < t->n_c1; c1++) {
        const float *plane = t->in + c1 * t->c1_stride;
        const float *weights = t->weights + c1 * t->weight_c1;
        const int64_t channels = conv2d_is_plain(step) ? 1 : c1 == t->n_c1 - 1 ? t->c_last : step;
        for (int64_t tap = 0; tap < t->n_taps; tap++) {
            const float *in = plane + t->taps[tap].in;
            const float *wc =
                weights + (conv2d_is_plain(step) ? tap * CONV_C0 : t->taps[tap].weights);
            prefetched = conv2d_prefetch(prefetched, conv2d_is_plain(step) ? 1 : step);
            for (int64_t c = 0; c < channels; c++, in++, wc += CONV_C0) {
                const __m512 w = _mm512_loadu_ps(wc), w_half = load_twice(wc + t->weight_stride);
#pragma GCC unroll 7
                for (int j = 0; j < pairs; j++) {
                    const __m512 x = _mm512_set1_ps(in[2 * j * step]);
                    acc[2 * j] = _mm512_fmadd_ps(x, w, acc[2 * j]);
                    if (odd && j == pairs - 1) {
                        half[j] = _mm512_fmadd_ps(x, w_half, half[j]);
                        continue;
                    }
                    const __m512 next = _mm512_set1_ps(in[(2 * j + 1) * step]);
                    acc[2 * j + 1] = _mm512_fmadd_ps(next, w, acc[2 * j + 1]);
                    half[j] = _mm512_fmadd_ps(_mm512_mask_mov_ps(x, 0xff00, next), w_half, half[j]);
                }
            }
        }
    }

    const enum activation activation = t->last ? t->activation : ACT_NONE;
    const __m512 low = _mm512_set1_ps(activation == ACT_CLIP ? t->alpha : 0.0f);
    const __m512 high = _mm512_set1_ps(t->beta);
    if (activation == ACT_RELU || activation == ACT_CLIP) {
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[i] = _mm512_max_ps(low, acc[i]);
#pragma GCC unroll 7
        for (int j = 0; j < pairs; j++)
            half[j] = _mm512_max_ps(low, half[j]);
    }
    if (activation == ACT_CLIP) {
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[i] = _mm512_min_ps(high, acc[i]);
#pragma GCC unroll 7
        for (int j = 0; j < pairs; j++)
            half[j] = _mm512_min_ps(high, half[j]);
    }
#pragma GCC unroll 14
    for (int i = 0; i < width; i++)
        _mm512_storeu_ps(dst + i * dst_step, acc[i]);
#pragma GCC unroll 7
    for (int j = 0; j < pairs; j++) {
        _mm256_storeu_ps(half_dst + 2 * j * dst_step, _mm512_castps512_ps256(half[j]));
        if (!(odd && j == pairs - 1))
            _mm256_storeu_ps(half_dst + (2 * j + 1) * dst_step, _mm512_extractf32x8_ps(half[j], 1));
    }
#undef SECOND
    if (activates_in_registers(activation))
        return;
    activate_stored_avx512f(activation, dst, width, dst_step, CONV_C0, t->alpha, t->beta);
    /* The other half of its vectors was not written. */
    activate_stored_avx2(activation, half_dst, width, dst_step, CONV_C0 / 2, t->alpha, t->beta);
}

#define DEFINE(blocks, step, width)                                                                \
    static void micro_##blocks##_##step##_##width(const struct conv2d_tile *tile)                  \
    {                                                                                              \
        CONV2D_FOR_TILES(t, tile, width, step, micro(t, blocks, width, step, multiply_add, NULL))  \
    }
#define NAME(blocks, step, width) micro_##blocks##_##step##_##width,

COUNT_TO_14(DEFINE, 1, 16)
COUNT_TO_14(DEFINE, 2, 16)
COUNT_TO_14(DEFINE, 1, 1)
COUNT_TO_14(DEFINE, 2, 1)
COUNT_TO_14(DEFINE, 1, 2)
COUNT_TO_14(DEFINE, 2, 2)

#define DEFINE_HALF(step, width)                                                                   \
    static void micro_half_##step##_##width(const struct conv2d_tile *tile)                        \
    {                                                                                              \
        CONV2D_FOR_TILES(t, tile, width, step, micro_half(t, width, step))                         \
    }
#define NAME_HALF(step, width) micro_half_##step##_##width,

COUNT_TO_14(DEFINE_HALF, 16)
COUNT_TO_14(DEFINE_HALF, 1)
COUNT_TO_14(DEFINE_HALF, 2)

static const conv2d_micro half_blocked[] = {COUNT_TO_14(NAME_HALF, 16)};
static const conv2d_micro half_plain[] = {COUNT_TO_14(NAME_HALF, 1)};
static const conv2d_micro half_strided[] = {COUNT_TO_14(NAME_HALF, 2)};
static const conv2d_micro blocked[] = {COUNT_TO_14(NAME, 1, 16) COUNT_TO_14(NAME, 2, 16)};
static const conv2d_micro plain[] = {COUNT_TO_14(NAME, 1, 1) COUNT_TO_14(NAME, 2, 1)};
static const conv2d_micro strided[] = {COUNT_TO_14(NAME, 1, 2) COUNT_TO_14(NAME, 2, 2)};
const struct conv2d_isa conv2d_isa_avx512f = {
    .max_blocks = MAX_BLOCKS,
    .whole = {MAX_WIDTH, blocked, plain, strided},
    .half_blocks = 2,
    .half = {MAX_WIDTH, half_blocked, half_plain, half_strided},
    .few = {FEW_VECTORS * LANES, NULL, few_plain, NULL},
    .widen = widen_avx512f,
    .vnni = 1,
    .round_bf16 = round_bf16_avx512f,
    .narrow_bf16 = narrow_bf16_avx512f,
    .take_even = conv2d_take_even_avx512f,
};

void conv2d_f32_avx512f(const struct kernel_args *args)
{
    conv2d_drive(args, &conv2d_isa_avx512f);
}

void conv2d_bf16_avx512f(const struct kernel_args *args)
{
    conv2d_drive(args, &conv2d_isa_avx512f);
}
