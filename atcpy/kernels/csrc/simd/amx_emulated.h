/* The instructions of AMX that simd/amx.h names, in plain C, for tests on CPUs without them. Each
 * is what the operation in Intel's manual (SDM, volume 2) says, and what it says would be a fault
 * ends the process: kernels are to keep the rules on the CPU, too. Each file that includes this has
 * tile registers of its own in each thread, so that it must configure them itself.
 */
#ifndef ATC_AMX_EMULATED_H
#define ATC_AMX_EMULATED_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/half.h"

static _Thread_local struct {
    struct amx_config config; /* palette 0: none */
    alignas(64) uint8_t tiles[AMX_TILES][AMX_ROWS][AMX_ROW_BYTES];
} amx_state;

#define amx_barrier()                 ((void)0)
#define amx_load_config(config)       amx_emulate_load_config(config)
#define amx_release()                 amx_emulate_release()
#define amx_zero(tile)                amx_emulate_zero(tile)
#define amx_load(tile, base, stride)  amx_emulate_load(tile, base, stride)
#define amx_store(tile, base, stride) amx_emulate_store(tile, base, stride)
#define amx_dpbf16ps(sums, x, w)      amx_emulate_dpbf16ps(sums, x, w)
#define amx_dpbusd(sums, x, w)        amx_emulate_bytes(sums, x, w, false)
#define amx_dpbssd(sums, x, w)        amx_emulate_bytes(sums, x, w, true)

static inline void amx_require(bool holds, const char *rule)
{
    if (holds)
        return;
    fprintf(stderr, "AMX: %s\n", rule);
    abort();
}

static inline int amx_rows_of(int tile)
{
    return amx_state.config.rows[tile];
}

static inline int amx_bytes_of(int tile)
{
    return amx_state.config.row_bytes[tile];
}

static inline void amx_emulate_release(void)
{
    memset(&amx_state, 0, sizeof amx_state);
}

static inline void amx_emulate_load_config(const struct amx_config *config)
{
    amx_require(config->palette == 1, "a palette that is not 1");
    for (size_t i = 0; i < sizeof config->reserved; i++)
        amx_require(config->reserved[i] == 0, "reserved bytes of the configuration");
    for (int i = 0; i < 16; i++) {
        const int rows = config->rows[i], bytes = config->row_bytes[i];
        amx_require(rows <= AMX_ROWS && bytes <= AMX_ROW_BYTES, "a tile is too large");
        amx_require((rows == 0) == (bytes == 0), "a tile has rows or columns alone");
        amx_require(i < AMX_TILES || rows == 0, "a tile that is not there");
    }
    amx_emulate_release();
    amx_state.config = *config;
}

static inline void amx_require_tile(int tile)
{
    amx_require(amx_state.config.palette == 1 && amx_rows_of(tile) > 0,
                "no such tile is configured");
}

static inline void amx_emulate_zero(int tile)
{
    amx_require_tile(tile);
    memset(amx_state.tiles[tile], 0, AMX_TILE_BYTES);
}

static inline void amx_emulate_load(int tile, const void *base, int64_t stride)
{
    amx_emulate_zero(tile);
    for (int r = 0; r < amx_rows_of(tile); r++)
        memcpy(amx_state.tiles[tile][r], (const uint8_t *)base + r * stride,
               (size_t)amx_bytes_of(tile));
}

static inline void amx_emulate_store(int tile, void *base, int64_t stride)
{
    amx_require_tile(tile);
    for (int r = 0; r < amx_rows_of(tile); r++)
        memcpy((uint8_t *)base + r * stride, amx_state.tiles[tile][r], (size_t)amx_bytes_of(tile));
}

/* What products need of their tiles: sums [rows, columns], x [rows, k], w [k, columns]. */
static inline void amx_require_shapes(int sums, int x, int w)
{
    amx_require_tile(sums);
    amx_require_tile(x);
    amx_require_tile(w);
    amx_require(sums != x && sums != w && x != w, "a tile is two operands");
    amx_require(amx_rows_of(sums) == amx_rows_of(x), "sums and x differ in rows");
    amx_require(amx_bytes_of(sums) == amx_bytes_of(w), "sums and w differ in columns");
    amx_require(amx_bytes_of(x) == 4 * amx_rows_of(w), "x and w differ in k");
    amx_require(amx_bytes_of(sums) % 4 == 0, "half a column");
}

/* A number that is below the normal ones as the zero of its sign. */
static inline float amx_flushed(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* a · b + c, rounded once, as if the exponent had no least value; a result below the normal numbers
 * is 0. Rounding may lift one to the least normal number that is not when its exponent has room.
 */
static inline float amx_multiply_add(float a, float b, float c)
{
    const float sum = fmaf(a, b, c);
    if (fabsf(sum) == FLT_MIN && fabsf(fmaf(a * 0x1p64F, b, c * 0x1p64F)) < FLT_MIN * 0x1p64F)
        return copysignf(0, sum);
    return amx_flushed(sum);
}

static inline float amx_bf16_at(const uint8_t *pair, int which)
{
    uint16_t half;
    memcpy(&half, pair + 2 * which, sizeof half);
    return amx_flushed(f32_of_bf16(half));
}

/* TDPBF16PS: even and odd elements of k are summed apart, from 0, then both together, and only
 * these are added to the sums.
 */
static inline void amx_emulate_dpbf16ps(int sums, int x, int w)
{
    amx_require_shapes(sums, x, w);
    for (int m = 0; m < amx_rows_of(sums); m++)
        for (int n = 0; n < amx_bytes_of(sums) / 4; n++) {
            float parts[2] = {0, 0}, sum;
            for (int k = 0; k < amx_rows_of(w); k++)
                for (int i = 0; i < 2; i++)
                    parts[i] =
                        amx_multiply_add(amx_bf16_at(amx_state.tiles[x][m] + 4 * k, i),
                                         amx_bf16_at(amx_state.tiles[w][k] + 4 * n, i), parts[i]);
            uint8_t *at = amx_state.tiles[sums][m] + 4 * n;
            memcpy(&sum, at, sizeof sum);
            sum = amx_flushed(amx_flushed(sum) + amx_flushed(parts[0] + parts[1]));
            memcpy(at, &sum, sizeof sum);
        }
}

/* TDPBUSD and TDPBSSD: x as unsigned or signed bytes by signed ones; sums wrap around. */
static inline void amx_emulate_bytes(int sums, int x, int w, bool is_signed)
{
    amx_require_shapes(sums, x, w);
    for (int m = 0; m < amx_rows_of(sums); m++)
        for (int n = 0; n < amx_bytes_of(sums) / 4; n++) {
            uint8_t *at = amx_state.tiles[sums][m] + 4 * n;
            uint32_t sum;
            memcpy(&sum, at, sizeof sum);
            for (int k = 0; k < amx_rows_of(w); k++)
                for (int i = 0; i < 4; i++) {
                    const uint8_t byte = amx_state.tiles[x][m][4 * k + i];
                    const int factor = is_signed ? (int8_t)byte : byte;
                    sum += (uint32_t)(factor * (int8_t)amx_state.tiles[w][k][4 * n + i]);
                }
            memcpy(at, &sum, sizeof sum);
        }
}

#endif
