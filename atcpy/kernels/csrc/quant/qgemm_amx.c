/* qgemm on AMX: up to two tiles of rows by two panels, 64 steps of k at a time, for x whose rows
 * lie as k counts. Sums are finished as on AVX-512.
 */
#include "quant/qgemm_finish_avx512.h"
#include "simd/amx.h"

enum { ROWS_AT_ONCE = 4 }; /* which qgemm_bytes_avx512 stores together */

static_assert(QGEMM_MAX_BLOCKS - AMX_PANELS >= 0 && QGEMM_PANEL - AMX_COLUMNS == 0 &&
                  QGEMM_BLOCK - AMX_ROW_BYTES == 0 && QGEMM_MAX_TILE_ROWS - AMX_BLOCK_ROWS == 0,
              "a row of a packed panel is a row of a tile");
static_assert(ATC_PIECE % AMX_ROWS == 0, "only the last piece of k has a rest");

static inline __attribute__((always_inline)) void
finish_rows(const struct qgemm_tile *t, const struct amx_block *block, const struct amx_sums *sums,
            int first, int rows, int panel, int panels)
{
    const __m512i start = qgemm_start_avx512(t, panel);
    __m512i total[ROWS_AT_ONCE];
    for (int i = 0; i < rows; i++)
        total[i] =
            _mm512_add_epi32(_mm512_loadu_si512(amx_sums_of(block, sums, first + i, panel)), start);
    qgemm_finish_avx512(t, total, t->dst + first * t->dst_row + panel * t->dst_panel, first, rows,
                        panel, panels);
}

static void finish_block(const struct qgemm_tile *t, const struct amx_block *block, int panels,
                         const struct amx_sums *sums)
{
    const int whole = (int)t->rows / ROWS_AT_ONCE * ROWS_AT_ONCE, rest = (int)t->rows - whole;
    for (int p = 0; p < panels; p++) {
        for (int first = 0; first < whole; first += ROWS_AT_ONCE)
            finish_rows(t, block, sums, first, ROWS_AT_ONCE, p, panels);
        if (rest > 0)
            finish_rows(t, block, sums, whole, rest, p, panels);
    }
}

static inline __attribute__((always_inline)) void micro(const struct qgemm_tile *t, int row_tiles,
                                                        int panels)
{
    struct amx_block block = {
        .x_row = t->x_row, .rows = t->rows, .all_rows = t->all_rows, .w_panel = t->w_panel};
    amx_clear_sums();
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);) {
        block.x = t->x[0] + piece.begin * QGEMM_K0;
        block.w = t->w + piece.begin * QGEMM_BLOCK;
        block.steps = piece.end - piece.begin;
        if (t->x_signed)
            amx_add_block(&block, row_tiles, panels, AMX_I8_I8);
        else
            amx_add_block(&block, row_tiles, panels, AMX_U8_I8);
    }
    struct amx_sums sums;
    amx_store_sums(&sums, row_tiles, panels);
    finish_block(t, &block, panels, &sums);
}

static void micro_1_1(const struct qgemm_tile *t)
{
    micro(t, 1, 1);
}

static void micro_1_2(const struct qgemm_tile *t)
{
    micro(t, 2, 1);
}

static void micro_2_1(const struct qgemm_tile *t)
{
    micro(t, 1, 2);
}

static void micro_2_2(const struct qgemm_tile *t)
{
    micro(t, 2, 2);
}

/* The tiles are given up at the end, as matmul_f32_amx does. */
void qgemm_any_amx(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {micro_1_1, micro_1_2, micro_2_1, micro_2_2};
    qgemm_drive(args, &(struct qgemm_isa){.max_blocks = AMX_PANELS,
                                          .max_rows = AMX_BLOCK_ROWS,
                                          .row_step = AMX_ROWS,
                                          .micro = table,
                                          .signs = QGEMM_ANY_X,
                                          .begin_rows = amx_configure});
    amx_release();
}
