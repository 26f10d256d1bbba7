/* int4_matmul, plainly: the definition of what every ISA computes. */
#include "quant/int4_matmul_loops.h"

/* The product of a block of a column, in steps of x. */
static float product(const struct int4_tile *t, const struct int4_steps *steps, const int8_t *x,
                     const uint8_t *w, int digits)
{
    int32_t sums[3];
    memcpy(sums, steps->start, sizeof sums);
    for (int64_t s = 0; s < t->block_steps; s++, w += INT4_BYTES)
        for (int half = 0; half < 2; half++)
            for (int d = 0; d < digits; d++)
                for (int i = 0; i < 4; i++)
                    sums[d] += (w[i] >> 4 * half & 15) * *x++;
    return (float)sums[2] * 65536 + (float)(sums[1] * 256 + sums[0]);
}

static void micro(const struct int4_tile *t, int digits)
{
    float total[INT4_PANEL] = {0};
    const int64_t w_block = t->block_steps * INT4_BYTES;
    for (int64_t b = 0; b < t->blocks; b++) {
        if (atc_spend(t->meter, INT4_PANEL * digits * t->block_steps))
            return;
        for (int j = 0; j < INT4_PANEL; j++) {
            const int64_t at = b * INT4_PANEL + j;
            const float zero = t->zeros == NULL ? 0 : t->zeros[at] - 8.0f;
            const float sum =
                product(t, t->steps + b, t->x + b * t->block_steps * INT4_STEP * digits,
                        t->w + b * w_block + j * 4, digits);
            total[j] += (sum - zero * t->steps[b].sum) * (t->scales[at] * t->steps[b].step);
        }
    }
    memcpy(t->y, total, (size_t)t->last_columns * sizeof *total);
}

static void micro_1(const struct int4_tile *t)
{
    micro(t, 1);
}

static void micro_3(const struct int4_tile *t)
{
    micro(t, 3);
}

void int4_matmul_f32_scalar(const struct kernel_args *args)
{
    static const int4_micro one[] = {micro_1}, three[] = {micro_3};
    const struct int4_matmul_params *p = args->params;
    int4_items(args, &(struct int4_isa){1, 1, p->digits == 3 ? three : one});
}
