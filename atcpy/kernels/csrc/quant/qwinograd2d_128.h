/* The transforms of qwinograd2d on vectors of 16 bytes, which each CPU has, as far as the compiler
 * makes them.
 */
#ifndef ATC_QWINOGRAD2D_128_H
#define ATC_QWINOGRAD2D_128_H

#define VECTOR_BYTES 16
#include "quant/qgemm_finish.h"
#include "quant/qwinograd2d_body.h"

ALWAYS_INLINE vu16 load(const uint8_t *pixel, bool is_signed)
{
    vu16 x;
    for (int i = 0; i < CHANNELS; i++)
        x[i] = is_signed ? (uint16_t)(int8_t)pixel[i] : pixel[i];
    return x;
}

ALWAYS_INLINE vu16 widen(vu32 fours, int pair, bool is_signed)
{
    const vu32 x = fours >> 16 * pair;
    const vu16 high = (vu16)((x << 8 & 0xff00) | (x << 16 & 0xff000000));
    return is_signed ? (vu16)((vi16)high >> 8) : high >> 8;
}

ALWAYS_INLINE void finish(const struct qgemm_tile *tile, vi32 sums[][PARTS], int columns,
                          uint8_t *dst)
{
    struct qgemm_tile at = *tile;
    at.dst = dst;
    at.addend = tile->addend == NULL ? NULL : tile->addend + (dst - tile->dst);
    for (int i = 0; i < columns; i++) {
        int32_t row[QGEMM_PANEL];
        memcpy(row, sums[i], sizeof row);
        qgemm_finish(&at, row, i, 0, 1);
    }
}

static void filters(const struct qwino_filters *f, int16_t *out, int64_t stride)
{
    transform_filters(f, widen, out, stride);
}

static void input(const struct qwino_input *tile, int16_t *out, int64_t stride)
{
    transform_input(tile, load, out, stride);
}

static void results(const struct qwino_results *tile)
{
    transform_results(tile, finish);
}

#endif
