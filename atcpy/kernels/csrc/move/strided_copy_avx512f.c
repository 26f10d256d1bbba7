/* strided_copy on AVX-512: transposes of elements of 4 bytes, 16 x 16 in registers. */
#include "move/strided_copy.h"
#include "simd/transpose_avx512.h"

static void transpose_plate(uint8_t *to, const uint8_t *from, const struct plate *p)
{
    const float *src = (const float *)(const void *)from;
    float *dst = (float *)(void *)to;
    for (int64_t r = 0; r < p->rows; r += TILE512) {
        const int64_t rows = p->rows - r < TILE512 ? p->rows - r : TILE512;
        for (int64_t c = 0; c < p->columns; c += TILE512) {
            const int64_t columns = p->columns - c < TILE512 ? p->columns - c : TILE512;
            const float *in = src + r + c * p->src_column;
            float *out = dst + r * p->dst_row + c;
            if (rows == TILE512 && columns == TILE512)
                transpose_tile16(in, p->src_column, TILE512, 0xffff, out, p->dst_row, TILE512,
                                 0xffff);
            else
                transpose_tile16(in, p->src_column, columns, lanes16(rows), out, p->dst_row, rows,
                                 lanes16(columns));
        }
    }
}

void strided_copy_b32_avx512f(const struct kernel_args *args)
{
    strided_copy_drive(args, transpose_plate);
}
