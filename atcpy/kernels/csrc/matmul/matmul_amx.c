/* matmul of bfloat16 on AMX: up to two tiles of rows by two panels, 16 pairs of k at a time. Scale,
 * bias and activation are those of AVX-512.
 */
#include "core/pieces.h"
#include "matmul/matmul_finish_avx512.h"
#include "simd/amx.h"

static_assert(MATMUL_MAX_BLOCKS - AMX_PANELS == 0 && MATMUL_PANEL - AMX_COLUMNS == 0,
              "a block has the panels of a call");

/* What sums begin from is added last, as the other rows do. */
static void finish_block(const struct matmul_tile *t, const struct amx_block *block, int panels,
                         const struct amx_sums *sums)
{
    const float *start = t->first ? t->residual : t->dst;
    for (int b = 0; b < panels; b++) {
        const __mmask16 mask = panel_mask(t, b);
        for (int i = 0; i < (int)t->rows; i++) {
            const int64_t at = i * t->y_row + b * LANES;
            __m512 sum = _mm512_castsi512_ps(_mm512_loadu_si512(amx_sums_of(block, sums, i, b)));
            if (start != NULL)
                sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, start + at));
            _mm512_mask_storeu_ps(t->dst + at, mask, t->last ? finish(t, sum, i, b, mask) : sum);
        }
    }
    if (activates_later(t))
        activate_tile(t, panels, (int)t->rows);
}

static inline __attribute__((always_inline)) void micro(const struct matmul_tile *t, int row_tiles,
                                                        int panels)
{
    const struct amx_block block = {
        .x = (const uint8_t *)t->a,
        .x_row = t->a_row * (int64_t)sizeof *t->a,
        .rows = t->rows,
        .all_rows = t->all_rows,
        .w = (const uint8_t *)t->b,
        .w_panel = t->b_panel * (int64_t)sizeof *t->b,
        .steps = t->k,
    };
    struct amx_sums sums;
    amx_clear_sums();
    amx_add_block(&block, row_tiles, panels, AMX_BF16);
    amx_store_sums(&sums, row_tiles, panels);
    finish_block(t, &block, panels, &sums);
}

static void micro_1_1(const struct matmul_tile *t)
{
    micro(t, 1, 1);
}

static void micro_1_2(const struct matmul_tile *t)
{
    micro(t, 2, 1);
}

static void micro_2_1(const struct matmul_tile *t)
{
    micro(t, 1, 2);
}

static void micro_2_2(const struct matmul_tile *t)
{
    micro(t, 2, 2);
}

static const matmul_micro micros[] = {micro_1_1, micro_1_2, micro_2_1, micro_2_2};
static const struct matmul_isa isa = {
    .max_blocks = AMX_PANELS,
    .max_rows = AMX_BLOCK_ROWS,
    .row_step = AMX_ROWS,
    .micro = micros,
    .begin_rows = amx_configure,
    .vnni = 2,
    .round_bf16 = round_bf16_avx512bf16,
};

/* The tiles are given up at the end: a thread that keeps them has 8 KiB more to save whenever
 * another one runs, and others in the process may use them, too.
 */
void matmul_f32_amx(const struct kernel_args *args)
{
    matmul_drive(args, &isa);
    amx_release();
}
