/* matmul on AVX-512. */
#include "matmul/matmul_micro_avx512.h"
#include "simd/transpose_avx512.h"

static inline __attribute__((always_inline)) __m512 multiply_add(__m512 sum, __m512 x, __m512 b)
{
    return _mm512_fmadd_ps(x, b, sum);
}

DEFINE_MICROS(multiply_add)

static void transpose(const float *src, int64_t src_row, float *dst, int64_t dst_row, int64_t rows,
                      int64_t columns)
{
    for (int64_t r = 0; r < rows; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            const float *from = src + r * src_row + c;
            float *to = dst + c * dst_row + r;
            const int64_t high = min_i64(LANES, rows - r), wide = min_i64(LANES, columns - c);
            if (high == LANES && wide == LANES)
                transpose_tile16(from, src_row, LANES, 0xffff, to, dst_row, LANES, 0xffff);
            else
                transpose_tile16(from, src_row, high, lanes16(wide), to, dst_row, wide,
                                 lanes16(high));
        }
}

const struct matmul_isa matmul_isa_avx512f = {
    .max_blocks = MAX_BLOCKS,
    .max_rows = MAX_ROWS,
    .row_step = 1,
    .micro = micros,
    .transpose = transpose,
    .widen = widen_avx512f,
    .vnni = 1,
    .round_bf16 = round_bf16_avx512f,
    .dots = matmul_dots_avx512f,
    .add_rows = matmul_add_rows_avx512f,
};

void matmul_f32_avx512f(const struct kernel_args *args)
{
    matmul_drive(args, &matmul_isa_avx512f);
}
