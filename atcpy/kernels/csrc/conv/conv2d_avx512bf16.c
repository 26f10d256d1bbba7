/* conv2d of bfloat16 on AVX512-BF16: each instruction multiplies pairs of channels, or of columns.
 * First convolutions of odd strides multiply floats; their results are rounded in one
 * instruction.
 */
#include "conv/conv2d_micro_avx512.h"

enum { PAIRS = CONV_C0 / 2 };

static inline __attribute__((always_inline)) __m512 multiply_add_floats(__m512 sum, __m512 x,
                                                                        __m512 w)
{
    return _mm512_fmadd_ps(x, w, sum);
}

static inline __attribute__((always_inline)) __m512 multiply_add(__m512 sum, __m512 x, __m512 w)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x);
}

static inline __attribute__((always_inline)) void store_bf16(float *to, __m512 x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, (__m256i)_mm512_cvtneps_pbh(x));
}

#define DEFINE(blocks, width)                                                                      \
    static void micro_##blocks##_##width(const struct conv2d_tile *tile)                           \
    {                                                                                              \
        CONV2D_FOR_TILES(t, tile, width, PAIRS,                                                    \
                         micro(t, blocks, width, PAIRS, multiply_add, store_bf16))                 \
    }
#define NAME(blocks, width) micro_##blocks##_##width,
#define DEFINE_PLAIN(blocks, width)                                                                \
    static void micro_plain_##blocks##_##width(const struct conv2d_tile *tile)                     \
    {                                                                                              \
        CONV2D_FOR_TILES(t, tile, width, 1,                                                        \
                         micro(t, blocks, width, 1, multiply_add_floats, store_bf16))              \
    }
#define NAME_PLAIN(blocks, width) micro_plain_##blocks##_##width,
#define DEFINE_COLUMNS(blocks, width)                                                              \
    static void micro_columns_##blocks##_##width(const struct conv2d_tile *tile)                   \
    {                                                                                              \
        CONV2D_FOR_TILES(t, tile, width, 1, micro(t, blocks, width, 1, multiply_add, store_bf16))  \
    }
#define NAME_COLUMNS(blocks, width) micro_columns_##blocks##_##width,

COUNT_TO_14(DEFINE, 1)
COUNT_TO_14(DEFINE, 2)
COUNT_TO_14(DEFINE_PLAIN, 1)
COUNT_TO_14(DEFINE_PLAIN, 2)
COUNT_TO_14(DEFINE_COLUMNS, 1)
COUNT_TO_14(DEFINE_COLUMNS, 2)

static const conv2d_micro blocked[] = {COUNT_TO_14(NAME, 1) COUNT_TO_14(NAME, 2)};
static const conv2d_micro plain[] = {COUNT_TO_14(NAME_PLAIN, 1) COUNT_TO_14(NAME_PLAIN, 2)};
static const conv2d_micro columns[] = {COUNT_TO_14(NAME_COLUMNS, 1) COUNT_TO_14(NAME_COLUMNS, 2)};
#define ISA(plain_micros)                                                                          \
    .max_blocks = MAX_BLOCKS, .whole = {MAX_WIDTH, blocked, plain_micros, NULL},                   \
    .widen = widen_avx512f, .vnni = 2, .round_bf16 = round_bf16_avx512bf16,                        \
    .narrow_bf16 = narrow_bf16_avx512bf16, .stores_bf16 = true,                                    \
    .take_even = conv2d_take_even_avx512f
static const struct conv2d_isa isa_of_columns = {ISA(columns)};
const struct conv2d_isa conv2d_isa_avx512bf16 = {ISA(plain), .columns = &isa_of_columns};

void conv2d_f32_avx512bf16(const struct kernel_args *args)
{
    conv2d_drive(args, &conv2d_isa_avx512bf16);
}

void conv2d_bf16_avx512bf16(const struct kernel_args *args)
{
    conv2d_drive(args, &conv2d_isa_avx512bf16);
}
