/* qgemm on NEON without dot products: up to 2 rows of a panel, products of bytes in 16 bits, whose
 * pairs are added to 16 accumulators.
 */
#include "quant/qgemm_finish_neon.h"

enum {
    MAX_ROWS = 2,
    HALVES = 2 * QGEMM_NEON_PARTS, /* registers of sums, of which two columns have two each */
};

/* Adds the products of a step: eight of bytes at once, each within 2^14, so that pairs of them need
 * more than 16 bits.
 */
static inline __attribute__((always_inline)) void add_step(const struct qgemm_tile *t,
                                                           const uint8_t *x, const uint8_t *w,
                                                           int rows, int32x4_t sums[][HALVES])
{
    const uint32x4_t flip = vdupq_n_u32(t->x_flip);
    int8x16_t bytes[MAX_ROWS];
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++) {
        uint32_t four;
        memcpy(&four, x + i * t->x_row, sizeof four);
        bytes[i] = vreinterpretq_s8_u32(veorq_u32(vdupq_n_u32(four), flip));
    }
#pragma GCC unroll 4
    for (int part = 0; part < QGEMM_NEON_PARTS; part++) {
        /* Else the compiler multiplies all parts first, and has too few registers left for the
         * sums.
         */
        __asm__ volatile("");
        const int8x16_t columns = vreinterpretq_s8_u8(vld1q_u8(w + part * (int)sizeof columns));
#pragma GCC unroll 2
        for (int i = 0; i < rows; i++) {
            int32x4_t *to = sums[i] + 2 * part;
            to[0] = vpadalq_s16(to[0], vmull_s8(vget_low_s8(columns), vget_low_s8(bytes[i])));
            to[1] = vpadalq_s16(to[1], vmull_high_s8(columns, bytes[i]));
        }
    }
}

/* One function for each number of rows: the loops unroll into registers. */
static inline __attribute__((always_inline)) void micro(const struct qgemm_tile *t, int rows)
{
    int32x4_t sums[MAX_ROWS][HALVES];
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int half = 0; half < HALVES; half++)
            sums[i][half] = vdupq_n_s32(0);

    const uint8_t *x = t->x[0], *w = t->w;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK)
            add_step(t, x + t->steps[k], w, rows, sums);

    int32_t stored[MAX_ROWS][QGEMM_PANEL];
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int part = 0; part < QGEMM_NEON_PARTS; part++)
            vst1q_s32(stored[i] + part * QGEMM_NEON_COLUMNS,
                      vpaddq_s32(sums[i][2 * part], sums[i][2 * part + 1]));
    for (int i = 0; i < rows; i++)
        qgemm_finish_neon(t, stored[i], i);
}

static void micro_1(const struct qgemm_tile *t)
{
    micro(t, 1);
}

static void micro_2(const struct qgemm_tile *t)
{
    micro(t, 2);
}

void qgemm_any_neon(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {micro_1, micro_2};
    qgemm_drive(args, &(struct qgemm_isa){.max_blocks = 1,
                                          .max_rows = MAX_ROWS,
                                          .row_step = 1,
                                          .micro = table,
                                          .signs = QGEMM_SIGNED_X});
}
