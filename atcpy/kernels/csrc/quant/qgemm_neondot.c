/* qgemm on NEON's dot products of four signed bytes: up to 6 rows of a panel in 24 accumulators. */
#include "quant/qgemm_finish_neon.h"
#include "simd/count_up.h"

enum { MAX_ROWS = 6, STEPS = 4 /* whose bytes of x one load takes */ };

static inline int8x16_t load(const uint8_t *at)
{
    return vreinterpretq_s8_u8(vld1q_u8(at));
}

/* sums + the products of four columns with step `step` of the four in x. */
static inline __attribute__((always_inline)) int32x4_t add_products(int32x4_t sums, int8x16_t w,
                                                                    int8x16_t x, int step)
{
    switch (step) { /* a constant once loops are unrolled: it is a part of the instruction */
    case 0:
        return vdotq_laneq_s32(sums, w, x, 0);
    case 1:
        return vdotq_laneq_s32(sums, w, x, 1);
    case 2:
        return vdotq_laneq_s32(sums, w, x, 2);
    default:
        return vdotq_laneq_s32(sums, w, x, 3);
    }
}

/* Adds the products of `steps` steps: of four whose bytes of x lie side by side, or of one. */
static inline __attribute__((always_inline)) void add_steps(const struct qgemm_tile *t,
                                                            const uint8_t *x, const uint8_t *w,
                                                            int steps, int rows,
                                                            int32x4_t sums[][QGEMM_NEON_PARTS])
{
    const int8x16_t flip = vreinterpretq_s8_u32(vdupq_n_u32(t->x_flip));
    const int64_t x_row = t->x_row;
    int8x16_t bytes[MAX_ROWS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        if (steps == STEPS) {
            bytes[i] = load(x + i * x_row);
        } else {
            uint32_t four;
            memcpy(&four, x + i * x_row, sizeof four);
            bytes[i] = vreinterpretq_s8_u32(vdupq_n_u32(four));
        }
        bytes[i] = veorq_s8(bytes[i], flip);
    }
#pragma GCC unroll 4
    for (int step = 0; step < steps; step++)
#pragma GCC unroll 4
        for (int part = 0; part < QGEMM_NEON_PARTS; part++) {
            /* Else the compiler loads the weights of all steps first, and has too few registers
             * left for the sums.
             */
            __asm__ volatile("" ::: "memory");
            const int8x16_t columns = load(w + step * QGEMM_BLOCK + part * (int)sizeof(int8x16_t));
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++)
                sums[i][part] = add_products(sums[i][part], columns, bytes[i], step);
        }
}

/* One function for each number of rows: the loops unroll into registers. */
static inline __attribute__((always_inline)) void micro(const struct qgemm_tile *t, int rows)
{
    int32x4_t sums[MAX_ROWS][QGEMM_NEON_PARTS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int part = 0; part < QGEMM_NEON_PARTS; part++)
            sums[i][part] = vdupq_n_s32(0);

    const uint8_t *x = t->x[0], *w = t->w;
    const int64_t *steps = t->steps;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end;) {
            if (k + STEPS <= piece.end && qgemm_side_by_side(steps + k)) {
                add_steps(t, x + steps[k], w, STEPS, rows, sums);
                k += STEPS;
                w += STEPS * QGEMM_BLOCK;
            } else {
                add_steps(t, x + steps[k], w, 1, rows, sums);
                k++;
                w += QGEMM_BLOCK;
            }
        }

    int32_t stored[MAX_ROWS][QGEMM_PANEL];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int part = 0; part < QGEMM_NEON_PARTS; part++)
            vst1q_s32(stored[i] + part * QGEMM_NEON_COLUMNS, sums[i][part]);
    for (int i = 0; i < rows; i++)
        qgemm_finish_neon(t, stored[i], i);
}

#define DEFINE(prefix, rows)                                                                       \
    static void prefix##rows(const struct qgemm_tile *t)                                           \
    {                                                                                              \
        micro(t, rows);                                                                            \
    }
#define NAME(prefix, rows) prefix##rows,

COUNT_TO_6(DEFINE, micro_)

void qgemm_any_neondot(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {COUNT_TO_6(NAME, micro_)};
    qgemm_drive(args, &(struct qgemm_isa){.max_blocks = 1,
                                          .max_rows = MAX_ROWS,
                                          .row_step = 1,
                                          .micro = table,
                                          .signs = QGEMM_SIGNED_X});
}
