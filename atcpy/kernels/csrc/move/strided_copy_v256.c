/* strided_copy on vectors of up to 256 bits: transposes of elements of 4 bytes in registers. */
#include "move/strided_copy.h"
#include "simd/transpose_v256.h"

/* Three long rows become triples, as colours of planes become pixels: tiles would be mostly empty.
 */
static void interleave_3(const float *restrict src, int64_t apart, float *restrict dst, int64_t n)
{
    const float *restrict second = src + apart, *restrict third = second + apart;
    for (int64_t i = 0; i < n; i++) {
        dst[3 * i] = src[i];
        dst[3 * i + 1] = second[i];
        dst[3 * i + 2] = third[i];
    }
}

enum { LINE = 16 }; /* elements of a line, of which a tile reads too many for CPUs to read ahead */

static void transpose_plate(uint8_t *to, const uint8_t *from, const struct plate *p)
{
    const float *src = (const float *)(const void *)from;
    float *dst = (float *)(void *)to;
    if (p->columns == 3 && p->dst_row == 3) {
        interleave_3(src, p->src_column, dst, p->rows);
        return;
    }
    for (int64_t r = 0; r < p->rows; r += TILE)
        for (int64_t c = 0; c < p->columns; c += TILE) {
            for (int64_t i = c; r % LINE == 0 && i < min_i64(c + TILE, p->columns); i++)
                __builtin_prefetch(src + r + i * p->src_column + 2 * LINE);
            transpose_tile(src + r + c * p->src_column, p->src_column, p->columns - c, p->rows - r,
                           dst + r * p->dst_row + c, p->dst_row, p->rows - r, p->columns - c);
        }
}

void FOR_ISA(strided_copy_b32)(const struct kernel_args *args)
{
    strided_copy_drive(args, transpose_plate);
}
