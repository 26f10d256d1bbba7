/* conv2d on vectors of up to 256 bits: up to 6 results of one output block, in as many vectors of
 * its channels as there are registers for, inputs broadcast. Where one vector holds all channels of
 * a block, up to 12 results.
 */
#include "simd/activation_vector.h"
#include "conv/conv2d.h"
#include "simd/count_up.h"

enum {
    MAX_BLOCKS = 1,
    MAX_WIDTH = 6,
    MAX_ACCUMULATORS = VF_REGISTERS * 3 / 4, /* the others hold weights, inputs and products */
    WHOLE = CONV_C0 / VF,                    /* vectors of a block */
    HALF = WHOLE / 2,
    MAX_VECTORS = WHOLE <= MAX_ACCUMULATORS / MAX_WIDTH ? WHOLE : MAX_ACCUMULATORS / MAX_WIDTH,
};

#ifdef __AVX2__
#define COUNT_TO_WIDTH_OF_HALF COUNT_TO_12
enum { MAX_WIDTH_OF_HALF = 12 };
#else
#define COUNT_TO_WIDTH_OF_HALF COUNT_TO_6
enum { MAX_WIDTH_OF_HALF = 6 };
#endif

/* Adds the products of one input channel of `width` results with its weights. */
static inline __attribute__((always_inline)) void add_products(vf (*acc)[MAX_VECTORS],
                                                               const float *in,
                                                               const float *weights, int vectors,
                                                               int64_t step, int width)
{
    vf w[MAX_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        w[v] = vf_load(weights + v * VF);
#pragma GCC unroll 12
    for (int i = 0; i < width; i++) {
        const vf x = vf_set1(in[i * step]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[i][v] = vf_fma(x, w[v], acc[i][v]);
    }
}

/* The channels of a block from `at` on. One function a (vectors, step, width): the loops over them
 * unroll into registers.
 */
static inline __attribute__((always_inline)) void micro(const struct conv2d_tile *t, int at,
                                                        int vectors, int64_t step, int width)
{
    vf acc[MAX_WIDTH_OF_HALF][MAX_VECTORS];
    /* Pointers move from result to result: products of steps would take registers. */
    const float *sums = t->dst + at, *residual = t->residual;
    if (t->first)
#pragma GCC unroll 12
        for (int i = 0; i < width; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_load(t->bias + at + v * VF);
    else
#pragma GCC unroll 12
        for (int i = 0; i < width; i++, sums += t->dst_step)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_load(sums + v * VF);
    if (t->first && residual != NULL)
#pragma GCC unroll 12
        for (int i = 0; i < width; i++, residual += t->residual_step)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_add(acc[i][v], vf_load(residual + at + v * VF));

    const float *prefetched = t->prefetched;
    for (int64_t c1 = 0; c1 < t->n_c1; c1++) {
        const float *plane = t->in + c1 * t->c1_stride;
        const float *weights = t->weights + c1 * t->weight_c1 + at;
        const int64_t channels = conv2d_is_plain(step) ? 1 : c1 == t->n_c1 - 1 ? t->c_last : step;
        if (step == CONV_C0 && t->reads_ahead)
#pragma GCC unroll 12
            for (int i = 0; i < width; i++)
                __builtin_prefetch(plane + t->c1_stride + i * CONV_C0, 0, 3);
        for (int64_t tap = 0; tap < t->n_taps; tap++) {
            const float *in = plane + t->taps[tap].in;
            /* One channel a tap: reading the offset would cost as much as the tap. */
            const float *wc =
                weights + (conv2d_is_plain(step) ? tap * CONV_C0 : t->taps[tap].weights);
            prefetched = conv2d_prefetch(prefetched, conv2d_is_plain(step) ? 1 : step);
            if (step == CONV_C0 && channels == step)
#pragma GCC unroll 4
                for (int c = 0; c < CONV_C0; c++, in++, wc += CONV_C0)
                    add_products(acc, in, wc, vectors, step, width);
            else
                for (int64_t c = 0; c < channels; c++, in++, wc += CONV_C0)
                    add_products(acc, in, wc, vectors, step, width);
        }
    }

    const enum activation activation = t->last ? t->activation : ACT_NONE;
    const vf low = vf_set1(activation == ACT_CLIP ? t->alpha : 0.0f), high = vf_set1(t->beta);
    if (activation == ACT_RELU || activation == ACT_CLIP)
#pragma GCC unroll 12
        for (int i = 0; i < width; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_at_least(low, acc[i][v]);
    if (activation == ACT_CLIP)
#pragma GCC unroll 12
        for (int i = 0; i < width; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_at_most(high, acc[i][v]);
    float *dst = t->dst + at;
#pragma GCC unroll 12
    for (int i = 0; i < width; i++, dst += t->dst_step)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            vf_store(dst + v * VF, acc[i][v]);
    if (!activates_in_registers(activation))
        FOR_ISA(activate_stored)(activation, t->dst + at, width, t->dst_step, vectors * VF,
                                 t->alpha, t->beta);
}

#define DEFINE(part, step, width)                                                                  \
    static void micro_##part##_##step##_##width(const struct conv2d_tile *tile)                    \
    {                                                                                              \
        enum { VECTORS = part < MAX_VECTORS ? part : MAX_VECTORS };                                \
        CONV2D_FOR_TILES(t, tile, width, step,                                                     \
            for (int at = 0; at < part * VF; at += VECTORS * VF)                                   \
                micro(t, at, VECTORS, step, width))                                                \
    }
#define NAME(part, step, width) micro_##part##_##step##_##width,

COUNT_TO_6(DEFINE, WHOLE, 16)
COUNT_TO_6(DEFINE, WHOLE, 1)
COUNT_TO_6(DEFINE, WHOLE, 2)
COUNT_TO_WIDTH_OF_HALF(DEFINE, HALF, 16)
COUNT_TO_WIDTH_OF_HALF(DEFINE, HALF, 1)
COUNT_TO_WIDTH_OF_HALF(DEFINE, HALF, 2)

static const conv2d_micro blocked[] = {COUNT_TO_6(NAME, WHOLE, 16)};
static const conv2d_micro plain[] = {COUNT_TO_6(NAME, WHOLE, 1)};
static const conv2d_micro strided[] = {COUNT_TO_6(NAME, WHOLE, 2)};
static const conv2d_micro half_blocked[] = {COUNT_TO_WIDTH_OF_HALF(NAME, HALF, 16)};
static const conv2d_micro half_plain[] = {COUNT_TO_WIDTH_OF_HALF(NAME, HALF, 1)};
static const conv2d_micro half_strided[] = {COUNT_TO_WIDTH_OF_HALF(NAME, HALF, 2)};
const struct conv2d_isa FOR_ISA(conv2d_isa) = {
    .max_blocks = MAX_BLOCKS,
    .whole = {MAX_WIDTH, blocked, plain, strided},
    .half_blocks = 1,
    .half = {MAX_WIDTH_OF_HALF, half_blocked, half_plain, half_strided},
    .widen = FOR_ISA(widen),
    .vnni = 1,
    .round_bf16 = LOOPS_FOR_ISA(round_bf16),
    .narrow_bf16 = LOOPS_FOR_ISA(narrow_bf16),
    .take_even = FOR_ISA(conv2d_take_even),
};

void FOR_ISA(conv2d_f32)(const struct kernel_args *args)
{
    conv2d_drive(args, &FOR_ISA(conv2d_isa));
}

void FOR_ISA(conv2d_bf16)(const struct kernel_args *args)
{
    conv2d_drive(args, &FOR_ISA(conv2d_isa));
}
