/* transdata on AVX2: elements of 4 bytes in blocks of 16, tiles of 8 pixels by 8 channels. */
#include "move/transdata.h"
#include "simd/transpose_avx2.h"

enum { C0 = 16 };

static void pack(uint8_t *blocked, const uint8_t *plain, const struct transdata_piece *piece)
{
    const float *src = (const float *)(const void *)plain;
    float *dst = (float *)(void *)blocked;
    for (int64_t i = 0; i < piece->pixels; i += TILE256)
        for (int64_t c = 0; c < C0; c += TILE256)
            transpose_tile8(src + c * piece->hw + i, piece->hw, piece->channels - c,
                            piece->pixels - i, dst + i * C0 + c, C0, piece->pixels - i, TILE256);
}

static void unpack(uint8_t *plain, const uint8_t *blocked, const struct transdata_piece *piece)
{
    const float *src = (const float *)(const void *)blocked;
    float *dst = (float *)(void *)plain;
    for (int64_t c = 0; c < piece->channels; c += TILE256)
        for (int64_t i = 0; i < piece->pixels; i += TILE256)
            transpose_tile8(src + i * C0 + c, C0, piece->pixels - i, TILE256,
                            dst + c * piece->hw + i, piece->hw, piece->channels - c,
                            piece->pixels - i);
}

void transdata_b32_avx2(const struct kernel_args *args)
{
    transdata_drive(args, pack, unpack);
}
