/* matmul of bfloat16 on AVX512-BF16: each instruction multiplies pairs of k. */
#include "matmul/matmul_micro_avx512.h"

static inline __attribute__((always_inline)) __m512 multiply_add(__m512 sum, __m512 x, __m512 b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)b);
}

DEFINE_MICROS(multiply_add)

const struct matmul_isa matmul_isa_avx512bf16 = {
    .max_blocks = MAX_BLOCKS,
    .max_rows = MAX_ROWS,
    .row_step = 1,
    .micro = micros,
    .vnni = 2,
    .round_bf16 = round_bf16_avx512bf16,
};

void matmul_f32_avx512bf16(const struct kernel_args *args)
{
    matmul_drive(args, &matmul_isa_avx512bf16);
}
