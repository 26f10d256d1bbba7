/* Rows of results of plain float tensors: the rows that the windows of one have inside the input
 * are joined first, element by element; then the windows are taken of that one row, which has
 * padding. Several rows are joined before windows are taken of the first: a load that two stores
 * have just written waits until both are in the cache.
 */
#ifndef ATC_POOL_ROW_VECTOR_H
#define ATC_POOL_ROW_VECTOR_H

#include "pooling/pool2d.h"
#include "simd/vector.h"

#include <math.h>

enum { POOL_SLOTS = 16 }; /* rows that are joined, at most, before their windows are taken */

/* What all rows of a task have in common: how windows lie along the last dim. */
struct pool_windows {
    bool is_max, include_pad;
    int64_t od, oh; /* results along the other dims */
    int64_t w, ow, kernel, stride, dilation, pad_begin, pad_end;
    int64_t span, at_once;
    int32_t indices[VF];
    float *counts; /* of the first results: elements that a mean is over along the row */
    float *joined;
};

/* The rows that the windows of one row of results have inside: depth · height of them. */
struct pool_rows {
    const float *first;
    int64_t depth, depth_step, height, height_step;
    int64_t count; /* what they contribute to the divisor of a mean */
};

/* The rows of windows of the row of results (od, oh) of a plane. */
typedef struct pool_rows (*pool_rows_of)(const struct kernel_args *args, int64_t plane, int64_t od,
                                         int64_t oh);

/* A row of results. It counts, as divisions take longer than a short row. */
struct pool_row {
    int64_t plane, od, oh;
};

static inline float pool_count_along(const struct pool_windows *p, int64_t ox)
{
    const int64_t begin = ox * p->stride - p->pad_begin;
    const struct pool2d_taps taps = p->include_pad
                                        ? taps_inside(begin + p->pad_begin, p->kernel, p->dilation,
                                                      p->pad_begin + p->w + p->pad_end)
                                        : taps_inside(begin, p->kernel, p->dilation, p->w);
    return (float)(taps.last - taps.first);
}

static inline void pool_prepare(struct pool_windows *p)
{
    p->span = (p->kernel - 1) * p->dilation + 1;
    p->at_once = (POOL_JOINED - 2 * VF - p->span) / p->stride / VF * VF;
    for (int i = 0; i < VF; i++)
        p->indices[i] = (int32_t)(i * p->stride);
    const int64_t counted = min_i64(POOL_COUNTS, (p->ow + VF - 1) / VF * VF);
    for (int64_t i = 0; i < counted && !p->is_max; i++)
        p->counts[i] = pool_count_along(p, i);
}

static inline __attribute__((always_inline)) vf pool_join(bool is_max, vf a, vf b)
{
    return is_max ? vf_max(a, b) : vf_add(a, b);
}

/* Joins some vectors of the rows at element x. */
static inline __attribute__((always_inline)) void
pool_join_vectors(const struct pool_rows *rows, bool is_max, int64_t x, int vectors, float *to)
{
    vf acc[4];
    for (int v = 0; v < vectors; v++)
        acc[v] = vf_set1(is_max ? -INFINITY : 0.0f);
    for (int64_t d = 0; d < rows->depth; d++) {
        const float *at = rows->first + d * rows->depth_step + x;
        for (int64_t h = 0; h < rows->height; h++, at += rows->height_step)
            for (int v = 0; v < vectors; v++)
                acc[v] = pool_join(is_max, acc[v], vf_load(at + v * VF));
    }
    for (int v = 0; v < vectors; v++)
        vf_store(to + v * VF, acc[v]);
}

/* Joins elements [begin, end) of the rows. */
static inline __attribute__((always_inline)) void
pool_join_rows(const struct pool_rows *rows, bool is_max, int64_t begin, int64_t end, float *to)
{
    int64_t x = begin;
    for (; x + 4 * VF <= end; x += 4 * VF)
        pool_join_vectors(rows, is_max, x, 4, to + x - begin);
    if (x + 2 * VF <= end) {
        pool_join_vectors(rows, is_max, x, 2, to + x - begin);
        x += 2 * VF;
    }
    if (x + VF <= end) {
        pool_join_vectors(rows, is_max, x, 1, to + x - begin);
        x += VF;
    }
    if (x < end && end - begin >= VF) {
        /* Those in front are joined again. */
        pool_join_vectors(rows, is_max, end - VF, 1, to + end - VF - begin);
    } else if (x < end) {
        vf acc = vf_set1(is_max ? -INFINITY : 0.0f);
        for (int64_t d = 0; d < rows->depth; d++)
            for (int64_t h = 0; h < rows->height; h++)
                acc = pool_join(
                    is_max, acc,
                    vf_load_n(rows->first + d * rows->depth_step + h * rows->height_step + x,
                              end - x, 0.0f));
        vf_store_n(to + x - begin, acc, end - x);
    }
}

static __attribute__((noinline)) vf pool_counts_along(const struct pool_windows *p, int64_t ox)
{
    float along[VF];
    for (int64_t i = 0; i < VF; i++)
        along[i] = pool_count_along(p, ox + i);
    return vf_load(along);
}

/* The divisors of VF results from `ox` on. */
static inline __attribute__((always_inline)) vf pool_divisors(const struct pool_windows *p,
                                                              int64_t kernel, int64_t stride,
                                                              int64_t count, int64_t ox)
{
    const int64_t begin = ox * stride - p->pad_begin;
    vf along;
    if (ox + VF <= POOL_COUNTS)
        along = vf_load(p->counts + ox);
    else if (begin >= 0 && begin + (VF - 1) * stride + p->span <= p->w)
        along = vf_set1((float)kernel);
    else
        along = pool_counts_along(p, ox);
    const vf divisors = vf_mul(along, vf_set1((float)count));
    return vf_at_least(vf_set1(1.0f), divisors); /* without elements the sum is 0 */
}

/* VF windows of a joined row, the first one at `at`. */
static inline __attribute__((always_inline)) vf pool_windows_of(const struct pool_windows *p,
                                                                bool is_max, int64_t kernel,
                                                                int64_t stride, const float *at)
{
    vf acc = vf_set1(is_max ? -INFINITY : 0.0f);
#pragma GCC unroll 3
    for (int64_t k = 0; k < kernel; k++, at += p->dilation) {
        const vf taps = stride == 1   ? vf_load(at)
                        : stride == 2 ? vf_load_even(at)
                                      : vf_gather(at, p->indices);
        acc = pool_join(is_max, acc, taps);
    }
    return acc;
}

/* Rows that are joined, of which windows are taken: `width` floats and a count each. */
struct pool_slots {
    int64_t n, width;
    const float *joined;
    int64_t counts[POOL_SLOTS];
};

/* The results [ox, ox + n) of joined rows; `out` is the first one's. */
static inline __attribute__((always_inline)) void
pool_take_windows(const struct pool_windows *p, bool is_max, int64_t kernel, int64_t stride,
                  const struct pool_slots *slots, int64_t ox, int64_t n, float *out)
{
    const float *joined = slots->joined;
    for (int64_t slot = 0; slot < slots->n; slot++, joined += slots->width, out += p->ow)
        for (int64_t i = 0; i < n; i += VF) {
            vf acc = pool_windows_of(p, is_max, kernel, stride, joined + i * stride);
            if (!is_max)
                acc = vf_div(acc, pool_divisors(p, kernel, stride, slots->counts[slot], ox + i));
            if (i + VF <= n)
                vf_store(out + ox + i, acc);
            else
                vf_store_n(out + ox + i, acc, n - i);
        }
}

/* The same, with loops of their own for the usual kernels. */
static inline __attribute__((always_inline)) void
pool_take_kernels(const struct pool_windows *p, bool is_max, int64_t stride,
                  const struct pool_slots *slots, int64_t ox, int64_t n, float *out)
{
    if (p->kernel == 3)
        pool_take_windows(p, is_max, 3, stride, slots, ox, n, out);
    else if (p->kernel == 2)
        pool_take_windows(p, is_max, 2, stride, slots, ox, n, out);
    else
        pool_take_windows(p, is_max, p->kernel, stride, slots, ox, n, out);
}

/* A function of its own, as its loops do not keep what they count in registers within others. */
static __attribute__((noinline)) void pool_take(const struct pool_windows *p,
                                                const struct pool_slots *slots, int64_t ox,
                                                int64_t n, float *out)
{
    if (p->stride == 1 && p->is_max)
        pool_take_kernels(p, true, 1, slots, ox, n, out);
    else if (p->stride == 1)
        pool_take_kernels(p, false, 1, slots, ox, n, out);
    else if (p->stride == 2 && p->is_max)
        pool_take_kernels(p, true, 2, slots, ox, n, out);
    else if (p->stride == 2)
        pool_take_kernels(p, false, 2, slots, ox, n, out);
    else
        pool_take_windows(p, p->is_max, p->kernel, p->stride, slots, ox, n, out);
}

static inline struct pool_row pool_row_at(const struct pool_windows *p, int64_t item)
{
    const int64_t planes = item / p->oh;
    return (struct pool_row){planes / p->od, planes % p->od, item % p->oh};
}

static inline void pool_next_row(const struct pool_windows *p, struct pool_row *row)
{
    if (++row->oh < p->oh)
        return;
    row->oh = 0;
    if (++row->od < p->od)
        return;
    row->od = 0;
    row->plane++;
}

/* Results [ox, ox + at_once) of all rows. */
static inline __attribute__((always_inline)) void pool_columns(struct atc_meter *meter,
                                                               const struct pool_windows *p,
                                                               bool is_max, pool_rows_of rows_of,
                                                               int64_t ox)
{
    const struct kernel_args *args = meter->args;
    const int64_t results = min_i64(p->at_once, p->ow - ox);
    /* Elements of whole vectors of windows: those outside come from no row. */
    const int64_t begin = ox * p->stride - p->pad_begin;
    const int64_t end = begin + ((results + VF - 1) / VF * VF - 1) * p->stride + p->span;
    const int64_t first = begin < 0 ? min_i64(0, end) : begin;
    const int64_t inside = min_i64(end, p->w), last = inside > first ? inside : first;
    const int64_t width = (end - begin + VF - 1) / VF * VF + VF; /* padding is whole vectors */
    const int64_t max_slots = min_i64(POOL_SLOTS, POOL_JOINED / width);
    const vf none = vf_set1(is_max ? -INFINITY : 0.0f);
    for (int64_t slot = 0; slot < max_slots; slot++) {
        float *joined = p->joined + slot * width;
        for (int64_t x = 0; x < first - begin; x += VF)
            vf_store(joined + x, none);
        for (int64_t x = last - begin; x < end - begin; x += VF)
            vf_store(joined + x, none);
    }
    struct pool_row row = pool_row_at(p, args->begin);
    for (int64_t item = args->begin; item < args->end; item += max_slots) {
        struct pool_slots slots = {
            .n = min_i64(max_slots, args->end - item), .width = width, .joined = p->joined};
        for (int64_t slot = 0; slot < slots.n; slot++, pool_next_row(p, &row)) {
            const struct pool_rows rows = rows_of(args, row.plane, row.od, row.oh);
            const int64_t per_vector = 1 + rows.depth * rows.height + p->kernel;
            if (atc_spend(meter, (end - begin) * per_vector / VF))
                return;
            slots.counts[slot] = rows.count;
            pool_join_rows(&rows, is_max, first, last, p->joined + slot * width + (first - begin));
        }
        pool_take(p, &slots, ox, results, (float *)args->dst[0] + item * p->ow);
    }
}

/* All items of a call, which are rows of results one after the other. */
static inline __attribute__((always_inline)) void
pool_row_run(const struct kernel_args *args, struct pool_windows windows, pool_rows_of rows_of)
{
    float counts[POOL_COUNTS], joined[POOL_JOINED];
    struct atc_meter meter = {.args = args};
    windows.counts = counts;
    windows.joined = joined;
    pool_prepare(&windows);
    for (int64_t ox = 0; ox < windows.ow && !atc_was_stopped(args); ox += windows.at_once)
        if (windows.is_max)
            pool_columns(&meter, &windows, true, rows_of, ox);
        else
            pool_columns(&meter, &windows, false, rows_of, ox);
}

#endif
