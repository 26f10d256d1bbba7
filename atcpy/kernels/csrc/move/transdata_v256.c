/* transdata on vectors of up to 256 bits: elements of 4 bytes in blocks of 16, square tiles of
 * pixels by channels.
 */
#include "move/transdata.h"
#include "simd/transpose_v256.h"

enum { C0 = 16 };

static void pack(uint8_t *blocked, const uint8_t *plain, const struct transdata_piece *piece)
{
    const float *src = (const float *)(const void *)plain;
    float *dst = (float *)(void *)blocked;
    for (int64_t i = 0; i < piece->pixels; i += TILE)
        for (int64_t c = 0; c < C0; c += TILE)
            transpose_tile(src + c * piece->hw + i, piece->hw, piece->channels - c,
                           piece->pixels - i, dst + i * C0 + c, C0, piece->pixels - i, TILE);
}

static void unpack(uint8_t *plain, const uint8_t *blocked, const struct transdata_piece *piece)
{
    const float *src = (const float *)(const void *)blocked;
    float *dst = (float *)(void *)plain;
    for (int64_t c = 0; c < piece->channels; c += TILE)
        for (int64_t i = 0; i < piece->pixels; i += TILE)
            transpose_tile(src + i * C0 + c, C0, piece->pixels - i, TILE, dst + c * piece->hw + i,
                           piece->hw, piece->channels - c, piece->pixels - i);
}

void FOR_ISA(transdata_b32)(const struct kernel_args *args)
{
    transdata_drive(args, pack, unpack);
}
