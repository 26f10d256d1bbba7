/* depthwise2d by its definition. */
#include "conv/depthwise2d.h"

static void one_result(struct atc_meter *meter, const struct dw_item *at, int64_t row,
                       int64_t column)
{
    const struct depthwise2d_params *p = meter->args->params;
    const int64_t top = row * p->sh - p->pt, left = column * p->sw - p->pl;
    const int64_t y_at = (row * p->ow + column) * CONV_C0;
    for (int c = 0; c < CONV_C0; c++) {
        float sum = at->bias[c];
        if (at->residual != NULL)
            sum += conv2d_load(at->residual, p->residual_type == CONV_BF16, y_at + c);
        for (int64_t i = 0; i < p->kh && !atc_spend(meter, p->kw); i++) {
            for (int64_t j = 0; j < p->kw; j++) {
                const int64_t r = top + i * p->dh, q = left + j * p->dw;
                if (r >= 0 && r < p->h && q >= 0 && q < p->w)
                    sum +=
                        conv2d_load(at->x, p->x_type == CONV_BF16, (r * p->w + q) * CONV_C0 + c) *
                        at->w[(i * p->kw + j) * CONV_C0 + c];
            }
        }
        conv2d_store(
            at->y, p->y_type == CONV_BF16, y_at + c,
            activate_f32((enum activation)p->activation, sum, (float)p->alpha, (float)p->beta));
    }
}

static void run(const struct kernel_args *args)
{
    const struct depthwise2d_params *p = args->params;
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct dw_item at = dw_item_at(args, item, widen_scalar);
        for (int64_t row = at.first_row; row < at.end_row; row++)
            for (int64_t column = 0; column < p->ow && !atc_spend(&meter, 1); column++)
                one_result(&meter, &at, row, column);
    }
}

void depthwise2d_f32_scalar(const struct kernel_args *args)
{
    run(args);
}

void depthwise2d_bf16_scalar(const struct kernel_args *args)
{
    run(args);
}
