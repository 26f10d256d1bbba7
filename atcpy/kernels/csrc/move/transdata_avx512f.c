/* transdata on AVX-512: elements of 4 bytes in blocks of 16, a tile of 16 pixels at a time. */
#include "move/transdata.h"
#include "simd/transpose_avx512.h"

static void pack(uint8_t *blocked, const uint8_t *plain, const struct transdata_piece *piece)
{
    const float *src = (const float *)(const void *)plain;
    float *dst = (float *)(void *)blocked;
    int64_t i = 0;
    if (piece->channels == TILE512)
        for (; i + TILE512 <= piece->pixels; i += TILE512)
            transpose_tile16(src + i, piece->hw, TILE512, 0xffff, dst + i * TILE512, TILE512,
                             TILE512, 0xffff);
    for (; i < piece->pixels; i += TILE512) {
        const int64_t pixels = piece->pixels - i < TILE512 ? piece->pixels - i : TILE512;
        transpose_tile16(src + i, piece->hw, piece->channels, lanes16(pixels), dst + i * TILE512,
                         TILE512, pixels, 0xffff);
    }
}

static void unpack(uint8_t *plain, const uint8_t *blocked, const struct transdata_piece *piece)
{
    const float *src = (const float *)(const void *)blocked;
    float *dst = (float *)(void *)plain;
    int64_t i = 0;
    if (piece->channels == TILE512)
        for (; i + TILE512 <= piece->pixels; i += TILE512)
            transpose_tile16(src + i * TILE512, TILE512, TILE512, 0xffff, dst + i, piece->hw,
                             TILE512, 0xffff);
    for (; i < piece->pixels; i += TILE512) {
        const int64_t pixels = piece->pixels - i < TILE512 ? piece->pixels - i : TILE512;
        transpose_tile16(src + i * TILE512, TILE512, pixels, lanes16(piece->channels), dst + i,
                         piece->hw, piece->channels, lanes16(pixels));
    }
}

void transdata_b32_avx512f(const struct kernel_args *args)
{
    transdata_drive(args, pack, unpack);
}
