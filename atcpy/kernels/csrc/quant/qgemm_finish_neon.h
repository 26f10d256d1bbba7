/* What becomes of the sums of 16 columns: bytes of qgemm_finish.h in registers. */
#ifndef ATC_QGEMM_FINISH_NEON_H
#define ATC_QGEMM_FINISH_NEON_H

#include "quant/qgemm_finish.h"

#include <arm_neon.h>

enum { QGEMM_NEON_COLUMNS = 4 /* of a register */, QGEMM_NEON_PARTS = QGEMM_PANEL / 4 };

/* The integers of bytes less their zero point. */
struct qgemm_range_neon {
    float32x4_t min, max;
};

static inline struct qgemm_range_neon qgemm_range_neon(bool is_signed, int32_t zero)
{
    const int32_t low = (is_signed ? INT8_MIN : 0) - zero;
    return (struct qgemm_range_neon){vdupq_n_f32((float)low), vdupq_n_f32((float)(low + 255))};
}

/* qgemm_round: the maximum of NaN and a number is the number. */
static inline int32x4_t qgemm_round_neon(float32x4_t x, const struct qgemm_range_neon *range)
{
    return vcvtnq_s32_f32(vminnmq_f32(vmaxnmq_f32(x, range->min), range->max));
}

/* qgemm_add for 16 bytes of y less their zero point, which become those of the sum. */
static inline void qgemm_add_neon(const struct qgemm_tile *t, const uint8_t *addend, bool is_signed,
                                  int32x4_t y[QGEMM_NEON_PARTS])
{
    const struct qgemm_sum *s = t->sum;
    const struct qgemm_range_neon range = qgemm_range_neon(is_signed, s->zero);
    const uint8x16_t bytes = vld1q_u8(addend);
    const int8x16_t signed_bytes = vreinterpretq_s8_u8(bytes);
    int16x8_t words[2] = {vmovl_s8(vget_low_s8(signed_bytes)), vmovl_high_s8(signed_bytes)};
    if (!is_signed) {
        words[0] = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
        words[1] = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
    }
#pragma GCC unroll 4
    for (int part = 0; part < QGEMM_NEON_PARTS; part++) {
        const int16x8_t half = words[part / 2];
        const int32x4_t other =
            part % 2 == 0 ? vmovl_s16(vget_low_s16(half)) : vmovl_high_s16(half);
        const float32x4_t addend_part =
            vfmaq_n_f32(vdupq_n_f32(s->offset), vcvtq_f32_s32(other), s->addend_scale);
        const float32x4_t sum = vfmaq_n_f32(addend_part, vcvtq_f32_s32(y[part]), s->product_scale);
        y[part] = qgemm_round_neon(sum, &range);
    }
}

/* Sums of one row as bytes. */
static inline void qgemm_finish_bytes_neon(const struct qgemm_tile *t, const int32_t *sums, int row)
{
    const struct qgemm_columns *c = t->columns;
    const bool is_signed = t->result == QGEMM_I8;
    const struct qgemm_range_neon range = qgemm_range_neon(is_signed, t->y_zero);
    int32x4_t y[QGEMM_NEON_PARTS];
#pragma GCC unroll 4
    for (int part = 0; part < QGEMM_NEON_PARTS; part++) {
        const int at = part * QGEMM_NEON_COLUMNS;
        int32x4_t total = vaddq_s32(vld1q_s32(sums + at), vld1q_s32(c->start + at));
        if (t->row_sums != NULL)
            total = vmlsq_n_s32(total, vld1q_s32(c->w_zero + at), t->row_sums[row]);
        y[part] =
            qgemm_round_neon(vmulq_f32(vcvtq_f32_s32(total), vld1q_f32(c->scale + at)), &range);
    }
    uint8_t *dst = t->dst + row * t->dst_row;
    const size_t columns = (size_t)t->last_columns;
    int32_t zero = t->y_zero;
    uint8_t some[QGEMM_PANEL] = {0};
    if (t->addend != NULL) {
        const uint8_t *addend = t->addend + (dst - t->dst);
        if (columns != QGEMM_PANEL)
            addend = memcpy(some, addend, columns);
        qgemm_add_neon(t, addend, is_signed, y);
        zero = t->sum->zero;
    }
    /* They are bytes once the zero point is added: their upper parts are cut off. */
    const int16x8_t first = vmovn_high_s32(vmovn_s32(y[0]), y[1]);
    const int16x8_t second = vmovn_high_s32(vmovn_s32(y[2]), y[3]);
    const int8x16_t less = vmovn_high_s16(vmovn_s16(first), second);
    const uint8x16_t bytes = vaddq_u8(vreinterpretq_u8_s8(less), vdupq_n_u8((uint8_t)zero));
    if (columns == QGEMM_PANEL) {
        vst1q_u8(dst, bytes);
        return;
    }
    vst1q_u8(some, bytes);
    memcpy(dst, some, columns);
}

/* Sums of one row of the one panel of a tile. */
static inline void qgemm_finish_neon(const struct qgemm_tile *t, const int32_t *sums, int row)
{
    if (t->result == QGEMM_I8 || t->result == QGEMM_U8)
        qgemm_finish_bytes_neon(t, sums, row);
    else
        qgemm_finish(t, sums, row, 0, 1);
}

#endif
