/* strided_copy on AVX2: transposes of elements of 4 bytes, 8 x 8 in registers. */
#include "move/strided_copy.h"
#include "simd/transpose_avx2.h"

static void transpose_plate(uint8_t *to, const uint8_t *from, const struct plate *p)
{
    const float *src = (const float *)(const void *)from;
    float *dst = (float *)(void *)to;
    for (int64_t r = 0; r < p->rows; r += TILE256)
        for (int64_t c = 0; c < p->columns; c += TILE256)
            transpose_tile8(src + r + c * p->src_column, p->src_column, p->columns - c, p->rows - r,
                            dst + r * p->dst_row + c, p->dst_row, p->rows - r, p->columns - c);
}

void strided_copy_b32_avx2(const struct kernel_args *args)
{
    strided_copy_drive(args, transpose_plate);
}
