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

/* Where a tile of n elements begins: a last one that would be cut begins earlier, and writes some
 * elements once more.
 */
static inline int64_t tile_begin(int64_t at, int64_t n)
{
    return n < TILE ? at : min_i64(at, n - TILE);
}

static void transpose_plate(uint8_t *to, const uint8_t *from, const struct plate *p)
{
    const float *src = (const float *)(const void *)from;
    float *dst = (float *)(void *)to;
    if (p->columns == 3 && p->dst_row == 3) {
        interleave_3(src, p->src_column, dst, p->rows);
        return;
    }
    for (int64_t r = 0; r < p->rows; r += TILE) {
        const int64_t row = tile_begin(r, p->rows);
        for (int64_t c = 0; c < p->columns; c += TILE) {
            const int64_t column = tile_begin(c, p->columns);
            const float *tile = src + row + column * p->src_column;
            for (int64_t i = 0; r % LINE == 0 && i < min_i64(TILE, p->columns - column); i++)
                __builtin_prefetch(tile + i * p->src_column + 2 * LINE);
            transpose_tile(tile, p->src_column, p->columns - column, p->rows - row,
                           dst + row * p->dst_row + column, p->dst_row, p->rows - row,
                           p->columns - column);
        }
    }
}

void FOR_ISA(strided_copy_b32)(const struct kernel_args *args)
{
    strided_copy_drive(args, transpose_plate);
}
