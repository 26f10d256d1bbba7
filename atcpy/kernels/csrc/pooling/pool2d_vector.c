/* pool2d on vectors: over the lanes of a channel block, or over neighbouring results of a row.
 */
#include "pooling/pool_row_vector.h"

#include <math.h>

enum { PARTS = POOL_C0 / VF }; /* vectors of a channel block */

/* One result of a channel block; `plane` and `out` point at lane 0. Only taps inside are addressed:
 * a window may begin far in the padding.
 */
static inline __attribute__((always_inline)) void pool_block(struct atc_meter *meter, bool is_long,
                                                             const float *plane, int64_t oy,
                                                             int64_t ox, float *out)
{
    const struct pool2d_params *p = meter->args->params;
    const int64_t y0 = oy * p->sh - p->pt, x0 = ox * p->sw - p->pl;
    const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);
    const struct pool2d_taps x = taps_inside(x0, p->kw, p->dw, p->w);
    const int64_t taps = x.last > x.first ? x.last - x.first : 0;
    vf acc[PARTS];
    if (p->kind == POOL_MAX) {
        for (int part = 0; part < PARTS; part++)
            acc[part] = vf_set1(-INFINITY);
        for (int64_t i = y.first; i < y.last && !(is_long && atc_spend(meter, taps)); i++) {
            const float *row_at = plane + (y0 + i * p->dh) * p->w * POOL_C0;
            for (struct atc_piece at = {x.first, x.first};
                 pool2d_next_taps(meter->args, is_long, &at, x.last);)
                for (int64_t j = at.begin; j < at.end; j++)
                    for (int part = 0; part < PARTS; part++)
                        acc[part] = vf_max(
                            acc[part], vf_load(row_at + (x0 + j * p->dw) * POOL_C0 + part * VF));
        }
    } else {
        for (int part = 0; part < PARTS; part++)
            acc[part] = vf_set1(0);
        for (int64_t i = y.first; i < y.last && !(is_long && atc_spend(meter, taps)); i++) {
            const float *row_at = plane + (y0 + i * p->dh) * p->w * POOL_C0;
            vf row[PARTS];
            for (int part = 0; part < PARTS; part++)
                row[part] = vf_set1(0);
            for (struct atc_piece at = {x.first, x.first};
                 pool2d_next_taps(meter->args, is_long, &at, x.last);)
                for (int64_t j = at.begin; j < at.end; j++)
                    for (int part = 0; part < PARTS; part++)
                        row[part] = vf_add(
                            row[part], vf_load(row_at + (x0 + j * p->dw) * POOL_C0 + part * VF));
            for (int part = 0; part < PARTS; part++)
                acc[part] = vf_add(acc[part], row[part]);
        }
        const int64_t divisor = pool2d_divisor(p, oy, ox, y, x);
        for (int part = 0; part < PARTS; part++)
            acc[part] = divisor > 0 ? vf_div(acc[part], vf_set1((float)divisor)) : vf_set1(0);
    }
    for (int part = 0; part < PARTS; part++)
        vf_store(out + part * VF, acc[part]);
}

/* Results [ox, end) of a channel block, all of whose columns lie inside: `rows` rows from
 * `first_row` on. Width and kind are constants where this is inlined.
 */
static inline __attribute__((always_inline)) void pool_inside(const struct pool2d_params *p,
                                                              enum pool2d_kind kind, int64_t kw,
                                                              const float *first_row, int64_t rows,
                                                              int64_t ox, int64_t end, float *out)
{
    const int64_t row_step = p->dh * p->w * POOL_C0, step = p->dw * POOL_C0;
    const vf divisor = vf_set1((float)(rows * kw)), zero = vf_set1(0);
    for (; ox < end; ox++) {
        const float *window = first_row + (ox * p->sw - p->pl) * POOL_C0;
        vf acc[PARTS];
        for (int part = 0; part < PARTS; part++)
            acc[part] = kind == POOL_MAX ? vf_set1(-INFINITY) : zero;
        for (int64_t i = 0; i < rows; i++, window += row_step)
            for (int part = 0; part < PARTS; part++) {
                vf row = kind == POOL_MAX ? acc[part] : zero;
#pragma GCC unroll 3
                for (int64_t j = 0; j < kw; j++) {
                    const vf x = vf_load(window + j * step + part * VF);
                    row = kind == POOL_MAX ? vf_max(row, x) : vf_add(row, x);
                }
                acc[part] = kind == POOL_MAX ? row : vf_add(acc[part], row);
            }
        for (int part = 0; part < PARTS; part++)
            vf_store(out + ox * POOL_C0 + part * VF,
                     kind == POOL_MAX ? acc[part] : vf_div(acc[part], divisor));
    }
}

/* A row of results of a channel block: those at its ends are asked tap by tap. */
static void pool_short_row(struct atc_meter *meter, const float *plane, int64_t oy, float *out)
{
    const struct pool2d_params *p = meter->args->params;
    const int64_t y0 = oy * p->sh - p->pt;
    const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);
    const int64_t rows = y.last - y.first;
    struct pool2d_results inside = results_inside(p);
    /* A mean may be over other elements than those that are added. */
    if (rows <= 0 || (p->kind == POOL_AVG && p->include_pad))
        inside.last = inside.first;
    const float *first_row = rows > 0 ? plane + (y0 + y.first * p->dh) * p->w * POOL_C0 : plane;
    for (int64_t ox = 0; ox < inside.first; ox++)
        pool_block(meter, false, plane, oy, ox, out + ox * POOL_C0);
#define INSIDE(kind, kw) pool_inside(p, kind, kw, first_row, rows, inside.first, inside.last, out)
    if (p->kind == POOL_MAX && p->kw == 2)
        INSIDE(POOL_MAX, 2);
    else if (p->kind == POOL_MAX && p->kw == 3)
        INSIDE(POOL_MAX, 3);
    else if (p->kind == POOL_MAX)
        INSIDE(POOL_MAX, p->kw);
    else if (p->kw == 2)
        INSIDE(POOL_AVG, 2);
    else if (p->kw == 3)
        INSIDE(POOL_AVG, 3);
    else
        INSIDE(POOL_AVG, p->kw);
#undef INSIDE
    for (int64_t ox = inside.last; ox < p->ow; ox++)
        pool_block(meter, false, plane, oy, ox, out + ox * POOL_C0);
}

/* Column j of the window for n ≤ VF neighbouring results; lanes whose tap is outside get `outside`.
 * `row` is the input row; `x0` is where the first result's window begins.
 */
static inline vf load_taps(const struct pool2d_params *p, const float *row, int64_t x0, int64_t n,
                           float outside)
{
    const int64_t last = x0 + (n - 1) * p->sw;
    if (n == VF && x0 >= 0 && last < p->w) {
        if (p->sw == 1)
            return vf_load(row + x0);
        if (p->sw == 2)
            return vf_load_even(row + x0);
    }
    float lanes[VF];
    for (int64_t i = 0; i < VF; i++) {
        const int64_t at = x0 + i * p->sw;
        lanes[i] = i < n && at >= 0 && at < p->w ? row[at] : outside;
    }
    return vf_load(lanes);
}

/* n ≤ VF neighbouring results of a plane without blocks. */
static inline __attribute__((always_inline)) void pool_run(struct atc_meter *meter, bool is_long,
                                                           const float *plane, int64_t oy,
                                                           int64_t ox, int64_t n, float *out)
{
    const struct pool2d_params *p = meter->args->params;
    const int64_t y0 = oy * p->sh - p->pt, x0 = ox * p->sw - p->pl;
    const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);
    /* The columns that some result has inside. */
    const int64_t first = taps_inside(x0 + (n - 1) * p->sw, p->kw, p->dw, p->w).first;
    const int64_t last = taps_inside(x0, p->kw, p->dw, p->w).last;
    const int64_t taps = last > first ? last - first : 0;
    vf acc;
    if (p->kind == POOL_MAX) {
        acc = vf_set1(-INFINITY);
        for (int64_t i = y.first; i < y.last && !(is_long && atc_spend(meter, taps)); i++)
            for (struct atc_piece at = {first, first};
                 pool2d_next_taps(meter->args, is_long, &at, last);)
                for (int64_t j = at.begin; j < at.end; j++)
                    acc = vf_max(acc, load_taps(p, plane + (y0 + i * p->dh) * p->w, x0 + j * p->dw,
                                                n, -INFINITY));
    } else {
        acc = vf_set1(0);
        for (int64_t i = y.first; i < y.last && !(is_long && atc_spend(meter, taps)); i++) {
            vf row = vf_set1(0);
            for (struct atc_piece at = {first, first};
                 pool2d_next_taps(meter->args, is_long, &at, last);)
                for (int64_t j = at.begin; j < at.end; j++)
                    row = vf_add(
                        row, load_taps(p, plane + (y0 + i * p->dh) * p->w, x0 + j * p->dw, n, 0));
            acc = vf_add(acc, row);
        }
        float divisors[VF];
        for (int64_t i = 0; i < VF; i++) {
            const struct pool2d_taps x = taps_inside(x0 + i * p->sw, p->kw, p->dw, p->w);
            const int64_t divisor = pool2d_divisor(p, oy, ox + i, y, x);
            divisors[i] = divisor > 0 ? (float)divisor : 1; /* the sum is 0 then */
        }
        acc = vf_div(acc, vf_load(divisors));
    }
    vf_store_n(out, acc, n);
}

static inline __attribute__((always_inline)) struct pool_rows
rows_of(const struct kernel_args *args, int64_t number, int64_t od, int64_t oy)
{
    (void)od;
    const struct pool2d_params *p = args->params;
    const int64_t y0 = oy * p->sh - p->pt;
    const float *plane = (const float *)args->src[0] + number * p->h * p->w;
    const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);
    struct pool2d_taps counted = y;
    if (p->include_pad)
        counted = taps_inside(oy * p->sh, p->kh, p->dh, p->pt + p->h + p->pb);
    return (struct pool_rows){
        .first = y.first < y.last ? plane + (y0 + y.first * p->dh) * p->w : plane,
        .depth = 1,
        .height = y.last - y.first,
        .height_step = p->dh * p->w,
        .count = counted.last - counted.first,
    };
}

/* Rows of results of planes without blocks, by the joined rows of their windows. */
static void pool_joined(const struct kernel_args *args)
{
    const struct pool2d_params *p = args->params;
    const struct pool_windows windows = {
        .is_max = p->kind == POOL_MAX,
        .include_pad = p->include_pad,
        .od = 1,
        .oh = p->oh,
        .w = p->w,
        .ow = p->ow,
        .kernel = p->kw,
        .stride = p->sw,
        .dilation = p->dw,
        .pad_begin = p->pl,
        .pad_end = p->pr,
    };
    pool_row_run(args, windows, rows_of);
}

/* Some rows of results. `is_long` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void pool_rows(const struct kernel_args *args,
                                                            bool is_long)
{
    const struct pool2d_params *p = args->params;
    const float *src = args->src[0];
    float *dst = args->dst[0];
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t oy = item % p->oh;
        const float *plane = src + item / p->oh * p->h * p->w * p->c0;
        float *out = dst + item * p->ow * p->c0;
        if (p->c0 == POOL_C0 && !is_long) {
            pool_short_row(&meter, plane, oy, out);
        } else if (p->c0 == POOL_C0) {
            for (int64_t ox = 0; ox < p->ow && !(is_long && atc_spend(&meter, 1)); ox++)
                pool_block(&meter, is_long, plane, oy, ox, out + ox * POOL_C0);
        } else {
            for (int64_t ox = 0; ox < p->ow && !(is_long && atc_spend(&meter, 1)); ox += VF)
                pool_run(&meter, is_long, plane, oy, ox, p->ow - ox < VF ? p->ow - ox : VF,
                         out + ox);
        }
    }
}

void FOR_ISA(pool2d_f32)(const struct kernel_args *args)
{
    const struct pool2d_params *p = args->params;
    if (p->c0 == 1 && pool_row_fits(p->kh, p->kw, p->sw, p->dw))
        pool_joined(args);
    else if (pool2d_is_long(p))
        pool_rows(args, true);
    else
        pool_rows(args, false);
}
