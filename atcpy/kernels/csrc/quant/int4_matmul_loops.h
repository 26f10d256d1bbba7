/* The loops of int4_matmul around its micro-kernels; the file of each ISA compiles them. */
#include "quant/int4_matmul.h"

#include <math.h>

/* Steps of blocks below it would be no normal numbers. */
#define INT4_SMALLEST 0x1p-100f

/* The largest magnitude, found by its bits as an integer: NaN is above all. */
static inline float largest_of(const float *restrict x, int64_t n)
{
    int32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    float magnitude;
    memcpy(&magnitude, &largest, sizeof magnitude);
    return magnitude;
}

/* Numbers of a block in steps of its largest magnitude over `limit`; returns the step. */
static inline float integers_of(const float *restrict x, int64_t n, float limit,
                                int32_t *restrict to)
{
    const float largest = largest_of(x, n);
    if (!isfinite(largest)) {
        for (int64_t i = 0; i < n; i++)
            to[i] = isfinite(x[i]) ? 0 : x[i] < 0 ? -1 : 1;
        return largest;
    }
    const float factor = largest < INT4_SMALLEST ? 0 : limit / largest;
    for (int64_t i = 0; i < n; i++)
        to[i] = (int32_t)rintf(x[i] * factor);
    return largest / limit;
}

/* A block of `n` numbers as digits, and as zeros up to the end of the block. */
static inline __attribute__((always_inline)) struct int4_steps
digits_of(const float *x, int64_t n, int64_t block, int digits, int8_t *restrict to)
{
    int32_t number[INT4_MAX_BLOCK];
    const float step = integers_of(x, n, digits == 3 ? 127.0f * 65536 : 127.0f, number);
    for (int64_t i = n; i < block; i++)
        number[i] = 0;
    int64_t sum = 0;
    for (int64_t i = 0; i < block; i++)
        sum += number[i];
    struct int4_steps steps = {.step = step, .sum = (float)sum};
    for (int64_t i = 0; i < block; i += INT4_STEP, to += INT4_STEP * digits)
        for (int half = 0; half < 2; half++)
            for (int j = 0; j < 4; j++) {
                int32_t rest = number[i + 2 * j + half];
                for (int d = 0; d < digits; d++) {
                    const int32_t low = (int8_t)rest;
                    steps.start[d] -= 8 * low;
                    to[(half * digits + d) * 4 + j] = (int8_t)low;
                    rest = (rest - low) / 256;
                }
            }
    return steps;
}

struct int4_drive {
    const struct kernel_args *args;
    const struct int4_matmul_params *p;
    const struct int4_isa *isa;
    struct int4_blocking b;
    struct atc_meter meter;
    int8_t *x;
    struct int4_steps *steps;
};

/* Rows [first, first + rows) of x as digits. */
static inline void take_rows(struct int4_drive *d, int64_t first, int64_t rows)
{
    const struct int4_matmul_params *p = d->p;
    const int64_t blocks = d->b.blocks;
    const float *x = (const float *)d->args->src[INT4_X] + first * p->k;
    for (int64_t i = 0; i < rows * blocks && !atc_spend(&d->meter, 4 * p->block); i++) {
        const int64_t row = i / blocks, k = i % blocks * p->block;
        const int64_t n = min_i64(p->block, p->k - k);
        int8_t *to = d->x + row * d->b.row_bytes + k * p->digits;
        d->steps[i] = p->digits == 3 ? digits_of(x + row * p->k + k, n, p->block, 3, to)
                                     : digits_of(x + row * p->k + k, n, p->block, 1, to);
    }
}

/* All rows of a chunk by some panels. */
static inline void run_panels(struct int4_drive *d, int64_t first, int64_t rows, int64_t panel,
                              int64_t panels)
{
    const struct int4_matmul_params *p = d->p;
    const struct int4_panel w = int4_panel_at(d->args, &d->b, panel);
    struct int4_tile tile = {
        .meter = &d->meter,
        .x_row = d->b.row_bytes,
        .w = w.w,
        .scales = w.scales,
        .zeros = w.zeros,
        .blocks = d->b.blocks,
        .block_steps = p->block / INT4_STEP,
        .y_row = p->n,
        .last_columns = min_i64(INT4_PANEL, p->n - (panel + panels - 1) * INT4_PANEL),
    };
    for (int64_t row = 0, n; row < rows && !atc_spend(&d->meter, 1); row += n) {
        n = ceil_div(rows - row, ceil_div(rows - row, d->isa->max_rows));
        tile.x = d->x + row * d->b.row_bytes;
        tile.steps = d->steps + row * d->b.blocks;
        tile.y = (float *)d->args->dst[0] + (first + row) * p->n + panel * INT4_PANEL;
        d->isa->micro[(panels - 1) * d->isa->max_rows + n - 1](&tile);
    }
}

static inline void int4_items(const struct kernel_args *args, const struct int4_isa *isa)
{
    const struct int4_matmul_params *p = args->params;
    struct int4_drive d = {.args = args,
                           .p = p,
                           .isa = isa,
                           .b = int4_block(p, args->cpu),
                           .meter = {.args = args},
                           .x = args->scratch};
    d.steps = (struct int4_steps *)(void *)(d.x + d.b.chunk_rows * d.b.row_bytes);
    int64_t taken = -1;
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t chunk = item / d.b.groups, first = chunk * d.b.chunk_rows;
        const int64_t rows = min_i64(d.b.chunk_rows, p->m - first);
        if (chunk != taken)
            take_rows(&d, first, rows);
        taken = chunk;
        const int64_t begin = item % d.b.groups * d.b.group;
        const int64_t end = min_i64(begin + d.b.group, d.b.panels);
        for (int64_t panel = begin; panel < end && !atc_spend(&d.meter, 1);
             panel += isa->max_panels)
            run_panels(&d, first, rows, panel, min_i64(isa->max_panels, end - panel));
    }
}
