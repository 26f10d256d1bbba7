/* qwinograd2d on NEON: up to 4 tiles by a panel in 16 accumulators. */
#include "quant/qwinograd2d_128.h"
#include "simd/count_up.h"

#include <arm_neon.h>

enum {
    MAX_TILES = 4,
    STEP = 4,                    /* channels of a tile that one load takes */
    REGISTERS = QGEMM_PANEL / 4, /* of sums of a tile */
};

/* Adds the products of eight columns with number `lane` of x. */
ALWAYS_INLINE void add_products(int32x4_t sums[2], int16x8_t u, int16x4_t x, int lane)
{
#define ADD(lane)                                                                                  \
    sums[0] = vmlal_lane_s16(sums[0], vget_low_s16(u), x, lane);                                   \
    sums[1] = vmlal_high_lane_s16(sums[1], u, x, lane)
    switch (lane) { /* a constant once loops are unrolled: it is a part of the instruction */
    case 0:
        ADD(0);
        break;
    case 1:
        ADD(1);
        break;
    case 2:
        ADD(2);
        break;
    default:
        ADD(3);
    }
#undef ADD
}

/* Adds the products of STEP channels. */
ALWAYS_INLINE void add_step(const int16_t *in, const int16_t *u, int tiles,
                            int32x4_t sums[][REGISTERS])
{
    int16x4_t x[MAX_TILES];
#pragma GCC unroll 4
    for (int i = 0; i < tiles; i++)
        x[i] = vld1_s16(in + i * QWINO_GROUP);
#pragma GCC unroll 2
    for (int pair = 0; pair < STEP / 2; pair++)
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            /* Else the compiler loads all filters first, and has too few registers left for the
             * sums.
             */
            __asm__ volatile("");
            const int16_t *eight = u + pair * QWINO_GROUP + half * QGEMM_PANEL;
            const int16x8_t first = vld1q_s16(eight), second = vld1q_s16(eight + 8);
            /* Eight columns, of one channel each. */
            const int16x8_t columns[2] = {vuzp1q_s16(first, second), vuzp2q_s16(first, second)};
#pragma GCC unroll 4
            for (int i = 0; i < tiles; i++)
#pragma GCC unroll 2
                for (int channel = 0; channel < 2; channel++)
                    add_products(sums[i] + 2 * half, columns[channel], x[i], 2 * pair + channel);
        }
}

/* One function for each number of tiles: the loops unroll into registers. */
ALWAYS_INLINE void micro(const struct qwino_product *p, int tiles, int block)
{
    int32x4_t sums[MAX_TILES][REGISTERS];
#pragma GCC unroll 4
    for (int i = 0; i < tiles; i++)
#pragma GCC unroll 4
        for (int k = 0; k < REGISTERS; k++)
            sums[i][k] = vdupq_n_s32(0);
    const int16_t *in = p->inputs, *u = p->filters + block * p->filter_block;
    for (int64_t left = 2 * p->pairs; left > 0; left -= QWINO_GROUP, in += p->group_stride)
        for (int64_t c = 0; c < min_i64(left, QWINO_GROUP); c += STEP, u += STEP * QGEMM_PANEL)
            add_step(in + c, u, tiles, sums);
#pragma GCC unroll 4
    for (int i = 0; i < tiles; i++)
#pragma GCC unroll 4
        for (int k = 0; k < REGISTERS; k++)
            vst1q_s32(p->sums + block * p->sum_block + i * QGEMM_PANEL + 4 * k, sums[i][k]);
}

#define DEFINE(blocks, tiles)                                                                      \
    static void micro_##blocks##_##tiles(const struct qwino_product *p)                            \
    {                                                                                              \
        for (int block = 0; block < blocks; block++)                                               \
            micro(p, tiles, block);                                                                \
    }
#define NAME(blocks, tiles) micro_##blocks##_##tiles,

COUNT_TO_4(DEFINE, 1)
COUNT_TO_4(DEFINE, 2)

void qwinograd2d_any_neon(const struct kernel_args *args)
{
    static const qwino_micro table[] = {COUNT_TO_4(NAME, 1) COUNT_TO_4(NAME, 2)};
    static const struct qwino_isa isa = {filters, input,   MAX_TILES,
                                         table,   results, FOR_ISA(qgemm_any)};
    qwinograd2d_drive(args, &isa);
}
