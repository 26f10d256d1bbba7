/* Tiles of AMX, as the kernels of matrix products use them: two tiles of rows by two panels.
 *
 * A tile of x has up to 16 rows of 64 bytes along k; one of w has 16 rows of a packed panel, each
 * of 16 columns by the 4 bytes of k that an instruction multiplies at once; one of sums has a
 * 32-bit sum of each row and column. All w tiles are whole: what is missing along k is zero in a
 * copy.
 *
 * With -Damx=emulated these names are those of amx_emulated.h, for CPUs without AMX.
 */
#ifndef ATC_AMX_H
#define ATC_AMX_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/checked.h"

enum {
    AMX_TILES = 8,
    AMX_ROWS = 16,      /* of a tile, at most */
    AMX_ROW_BYTES = 64, /* likewise */
    AMX_TILE_BYTES = AMX_ROWS * AMX_ROW_BYTES,
    AMX_COLUMNS = 16,  /* 32-bit sums of a row */
    AMX_ROW_TILES = 2, /* of a block */
    AMX_PANELS = 2,    /* likewise */
    AMX_BLOCK_ROWS = AMX_ROW_TILES * AMX_ROWS,
};

/* What LDTILECFG reads. */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16]; /* of each tile; 0 beyond the last */
    uint8_t rows[16];
};

static_assert(sizeof(struct amx_config) == 64, "the memory format of LDTILECFG");
static_assert(offsetof(struct amx_config, row_bytes) == 16, "the memory format of LDTILECFG");
static_assert(offsetof(struct amx_config, rows) == 48, "the memory format of LDTILECFG");

#ifdef ATC_AMX_EMULATED
#include "simd/amx_emulated.h"
#else
#include <immintrin.h>
/* The intrinsics of gcc do not say that they read memory. */
#define amx_barrier()                 __asm__ volatile("" ::: "memory")
#define amx_load_config(config)       _tile_loadconfig(config)
#define amx_release()                 _tile_release()
#define amx_zero(tile)                _tile_zero(tile)
#define amx_load(tile, base, stride)  _tile_loadd(tile, base, stride)
#define amx_store(tile, base, stride) _tile_stored(tile, base, stride)
#define amx_dpbf16ps(sums, x, w)      _tile_dpbf16ps(sums, x, w)
#define amx_dpbusd(sums, x, w)        _tile_dpbusd(sums, x, w)
#define amx_dpbssd(sums, x, w)        _tile_dpbssd(sums, x, w)
#endif

/* Numbers of tiles: of sums, by row tile and panel; of x, by row tile; of w, by panel. They are
 * macros because the intrinsics print them into the assembler's text.
 */
#define AMX_SUMS_00 0
#define AMX_SUMS_01 1
#define AMX_SUMS_10 2
#define AMX_SUMS_11 3
#define AMX_X_0     4
#define AMX_X_1     5
#define AMX_W_0     6
#define AMX_W_1     7

/* Rows of a tile where a kernel has `rows` in all. */
static inline int64_t amx_tile_rows(int64_t rows)
{
    return min_i64(rows, AMX_ROWS);
}

/* Configures the tiles for `rows` rows in all. Any number of whole tiles and a rest need no other
 * configuration: the last tile begins so early that it is whole.
 */
static inline void amx_configure(int64_t rows)
{
    const uint8_t high = (uint8_t)amx_tile_rows(rows);
    struct amx_config config = {.palette = 1};
    for (int i = 0; i < AMX_TILES; i++)
        config.row_bytes[i] = AMX_ROW_BYTES;
    for (int i = AMX_SUMS_00; i <= AMX_X_1; i++)
        config.rows[i] = high;
    config.rows[AMX_W_0] = config.rows[AMX_W_1] = AMX_ROWS;
    amx_barrier();
    amx_load_config(&config);
}

/* What products the elements of x and w have. */
enum amx_product { AMX_BF16, AMX_U8_I8, AMX_I8_I8 };

#define AMX_MULTIPLY(product, sums, x, w)                                                          \
    do {                                                                                           \
        if ((product) == AMX_BF16)                                                                 \
            amx_dpbf16ps(sums, x, w);                                                              \
        else if ((product) == AMX_U8_I8)                                                           \
            amx_dpbusd(sums, x, w);                                                                \
        else                                                                                       \
            amx_dpbssd(sums, x, w);                                                                \
    } while (0)

/* Rows [0, rows) of x by panels of w, over `steps` times the 4 bytes of k that an instruction
 * multiplies at once. `all_rows` are those that the tiles are configured for: where there are more
 * than 16, as many of them as are missing to whole tiles lie before these.
 */
struct amx_block {
    const uint8_t *x;
    int64_t x_row; /* bytes from one row to the next */
    int64_t rows, all_rows;
    const uint8_t *w;
    int64_t w_panel; /* bytes from one panel to the next */
    int64_t steps;
};

/* The first row of a row tile; it may be below 0. */
static inline int64_t amx_first_row(const struct amx_block *b, int row_tile)
{
    return min_i64(row_tile * AMX_ROWS, b->rows - amx_tile_rows(b->all_rows));
}

/* Adds the products of one tile along k. */
static inline __attribute__((always_inline)) void amx_add_step(const uint8_t *const *x,
                                                               int64_t x_row, const uint8_t *w,
                                                               int64_t w_panel, int row_tiles,
                                                               int panels, enum amx_product product)
{
    amx_load(AMX_W_0, w, AMX_ROW_BYTES);
    amx_load(AMX_X_0, x[0], x_row);
    AMX_MULTIPLY(product, AMX_SUMS_00, AMX_X_0, AMX_W_0);
    if (panels == 2) {
        amx_load(AMX_W_1, w + w_panel, AMX_ROW_BYTES);
        AMX_MULTIPLY(product, AMX_SUMS_01, AMX_X_0, AMX_W_1);
    }
    if (row_tiles == 2) {
        amx_load(AMX_X_1, x[1], x_row);
        AMX_MULTIPLY(product, AMX_SUMS_10, AMX_X_1, AMX_W_0);
    }
    if (row_tiles == 2 && panels == 2)
        AMX_MULTIPLY(product, AMX_SUMS_11, AMX_X_1, AMX_W_1);
}

/* The rest along k, which is no whole tile, from copies with zeros behind it: what lies there in
 * memory may belong to others, and NaN times zero is NaN.
 */
static inline __attribute__((always_inline)) void amx_add_rest(const struct amx_block *b,
                                                               const uint8_t *const *x,
                                                               int row_tiles, int panels,
                                                               enum amx_product product)
{
    const int64_t done = b->steps / AMX_ROWS, rest = b->steps % AMX_ROWS;
    const int64_t high = amx_tile_rows(b->all_rows);
    alignas(64) uint8_t x_copy[AMX_ROW_TILES][AMX_TILE_BYTES] = {0};
    alignas(64) uint8_t w_copy[AMX_PANELS][AMX_TILE_BYTES] = {0};
    for (int t = 0; t < row_tiles; t++)
        for (int64_t r = 0; r < high; r++)
            memcpy(x_copy[t] + r * AMX_ROW_BYTES, x[t] + r * b->x_row + done * AMX_ROW_BYTES,
                   (size_t)rest * 4);
    for (int p = 0; p < panels; p++)
        memcpy(w_copy[p], b->w + p * b->w_panel + done * AMX_TILE_BYTES,
               (size_t)(rest * AMX_ROW_BYTES));
    amx_barrier();
    amx_add_step((const uint8_t *const[]){x_copy[0], x_copy[1]}, AMX_ROW_BYTES, w_copy[0],
                 AMX_TILE_BYTES, row_tiles, panels, product);
}

/* Adds the products of a block to the sums in the tiles. */
static inline __attribute__((always_inline)) void
amx_add_block(const struct amx_block *b, int row_tiles, int panels, enum amx_product product)
{
    const uint8_t *x[AMX_ROW_TILES] = {b->x + amx_first_row(b, 0) * b->x_row,
                                       b->x + amx_first_row(b, 1) * b->x_row};
    for (int64_t step = 0; step < b->steps / AMX_ROWS; step++) {
        const uint8_t *at[AMX_ROW_TILES] = {x[0] + step * AMX_ROW_BYTES,
                                            x[1] + step * AMX_ROW_BYTES};
        amx_add_step(at, b->x_row, b->w + step * AMX_TILE_BYTES, b->w_panel, row_tiles, panels,
                     product);
    }
    if (b->steps % AMX_ROWS != 0)
        amx_add_rest(b, x, row_tiles, panels, product);
}

static inline void amx_clear_sums(void)
{
    amx_zero(AMX_SUMS_00);
    amx_zero(AMX_SUMS_01);
    amx_zero(AMX_SUMS_10);
    amx_zero(AMX_SUMS_11);
}

/* The sums of a block: those of a row tile lie behind each other, those of the next one behind
 * them.
 */
struct amx_sums {
    alignas(64) uint32_t at[AMX_BLOCK_ROWS][AMX_PANELS * AMX_COLUMNS];
};

static inline __attribute__((always_inline)) void amx_store_sums(struct amx_sums *sums,
                                                                 int row_tiles, int panels)
{
    const int64_t stride = sizeof sums->at[0];
    amx_store(AMX_SUMS_00, sums->at[0], stride);
    if (panels == 2)
        amx_store(AMX_SUMS_01, sums->at[0] + AMX_COLUMNS, stride);
    if (row_tiles == 2)
        amx_store(AMX_SUMS_10, sums->at[AMX_ROWS], stride);
    if (row_tiles == 2 && panels == 2)
        amx_store(AMX_SUMS_11, sums->at[AMX_ROWS] + AMX_COLUMNS, stride);
}

/* The sums of a row of a block in one of its panels. */
static inline const uint32_t *amx_sums_of(const struct amx_block *b, const struct amx_sums *sums,
                                          int64_t row, int panel)
{
    const int tile = (int)(row / AMX_ROWS);
    return sums->at[tile * AMX_ROWS + row - amx_first_row(b, tile)] + panel * AMX_COLUMNS;
}

#endif
