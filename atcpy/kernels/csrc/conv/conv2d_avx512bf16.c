/* conv2d of bfloat16 on AVX512-BF16: each instruction multiplies pairs of channels. */
#include "conv/conv2d_micro_avx512.h"

enum { PAIRS = CONV_C0 / 2 };

static inline __attribute__((always_inline)) __m512 multiply_add(__m512 sum, __m512 x, __m512 w)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x);
}

#define DEFINE(blocks, width)                                                                      \
    static void micro_##blocks##_##width(const struct conv2d_tile *tile)                           \
    {                                                                                              \
        micro(tile, blocks, width, PAIRS, multiply_add);                                                                \
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
