/* What becomes of the sums of a tile; each ISA compiles it with its flags, the arithmetic is one.
 */
#ifndef ATC_QGEMM_FINISH_H
#define ATC_QGEMM_FINISH_H

#include "quant/qgemm.h"

#include <math.h>
#include <string.h>

/* x, rounded to the nearest integer of [min, max]; NaN is the least. */
static inline int32_t qgemm_round(float x, float min, float max)
{
    x = x > min ? x : min;
    x = x < max ? x : max;
    return (int32_t)rintf(x);
}

/* A byte of y plus one of the addend. */
static inline uint8_t qgemm_add(const struct qgemm_tile *t, int32_t y, uint8_t addend)
{
    const struct qgemm_sum *s = t->sum;
    const int32_t other = t->result == QGEMM_I8 ? (int8_t)addend : addend;
    const float addend_part = fmaf((float)other, s->addend_scale, s->offset);
    const float sum = fmaf((float)y, s->product_scale, addend_part);
    const int32_t low = t->result == QGEMM_I8 ? INT8_MIN : 0;
    const float min = (float)(low - s->zero), max = (float)(low + 255 - s->zero);
    return (uint8_t)(qgemm_round(sum, min, max) + s->zero);
}

/* Sums of one row of one panel, to where the row begins in that panel's part of the result. */
static inline void qgemm_finish(const struct qgemm_tile *t, const int32_t *sums, int row, int block,
                                int blocks)
{
    const struct qgemm_columns *c = t->columns + block;
    int32_t total[QGEMM_PANEL];
    for (int i = 0; i < QGEMM_PANEL; i++)
        total[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)c->start[i]);
    if (t->row_sums != NULL) {
        const uint32_t of_row = (uint32_t)t->row_sums[row];
        for (int i = 0; i < QGEMM_PANEL; i++)
            total[i] = (int32_t)((uint32_t)total[i] - of_row * (uint32_t)c->w_zero[i]);
    }
    uint8_t *dst = t->dst + row * t->dst_row + block * t->dst_panel;
    const size_t columns = block + 1 < blocks ? QGEMM_PANEL : (size_t)t->last_columns;
    if (t->result == QGEMM_I32) {
        memcpy(dst, total, columns * sizeof *total);
        return;
    }
    float value[QGEMM_PANEL];
    if (t->result == QGEMM_F32) {
        for (int i = 0; i < QGEMM_PANEL; i++)
            value[i] = (float)total[i] * c->scale[i] + c->bias[i];
        memcpy(dst, value, columns * sizeof *value);
        return;
    }
    const int32_t low = t->result == QGEMM_I8 ? INT8_MIN : 0;
    const float min = (float)(low - t->y_zero), max = (float)(low + 255 - t->y_zero);
    uint8_t bytes[QGEMM_PANEL];
    int32_t y[QGEMM_PANEL]; /* less its zero point */
    for (int i = 0; i < QGEMM_PANEL; i++)
        y[i] = qgemm_round((float)total[i] * c->scale[i], min, max);
    if (t->addend != NULL) {
        const uint8_t *addend = t->addend + (dst - t->dst);
        for (size_t i = 0; i < columns; i++)
            bytes[i] = qgemm_add(t, y[i], addend[i]);
    } else {
        for (int i = 0; i < QGEMM_PANEL; i++)
            bytes[i] = (uint8_t)(y[i] + t->y_zero);
    }
    if (columns == QGEMM_PANEL)
        memcpy(dst, bytes, QGEMM_PANEL);
    else
        memcpy(dst, bytes, columns);
}

#endif
