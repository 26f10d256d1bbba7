/* convnd: conv(x, w) + bias, or conv_transpose(x, w) + bias, in up to three spatial dims, directly
 * on plain tensors: for element types, weights and ranks that the blocked convolutions do not take.
 *
 *     x     [n, group · cg, in…]
 *     w     [group · mg, cg, kernel…], or [group · cg, mg, kernel…] if transposed
 *     bias  [group · mg], optional
 *     y     [n, group · mg, out…]
 *
 * Element o of a dim reads i = o · stride + k · dilation − pad with tap k; transposed, it is the
 * other way round: o + pad = i · stride + k · dilation.
 */
#ifndef ATC_CONVND_H
#define ATC_CONVND_H

#include "core/pieces.h"

enum { CONVND_DIMS = 3 };

#define CONVND_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(n)                                                                                         \
    I64(group) I64(cg) I64(mg) I64S(in, CONVND_DIMS) I64S(out, CONVND_DIMS)                        \
        I64S(kernel, CONVND_DIMS) I64S(stride, CONVND_DIMS) I64S(dilation, CONVND_DIMS)            \
            I64S(pad, CONVND_DIMS) I64(transposed)
DECLARE_PARAMS(convnd, CONVND_FIELDS)

enum { CONVND_X, CONVND_W, CONVND_BIAS, CONVND_OPERANDS };

enum { CONVND_ROW_TAPS = 16 }; /* along the last dim, at most, where rows are summed in vectors */

enum { CONVND_BLOCK = 96 }; /* results of a channel in an item: whole vectors on any ISA */

enum {
    CONVND_KC = 256,     /* taps of all channels that are packed at once */
    CONVND_MAX_ROWS = 8, /* channels of one micro-kernel call, on any ISA */
    CONVND_SCRATCH = (CONVND_KC + CONVND_MAX_ROWS) * CONVND_BLOCK * (int)sizeof(float),
};

/* One work item: results [begin, end) of each channel of a group of an image. They are counted in a
 * grid of results that meet the same taps. There is one grid of all results or, transposed, one for
 * each remainder by the strides. Result j of a dim of the grid is element first + j · step, and tap
 * k reads element j · x_step + offset.
 */
struct convnd_item {
    int64_t image, group;
    int64_t first[CONVND_DIMS], step[CONVND_DIMS], count[CONVND_DIMS], x_step[CONVND_DIMS];
    int64_t begin, end;
};

/* Grids, and blocks of the largest one. */
static inline int64_t convnd_grids(const struct convnd_params *p, int dim)
{
    return p->transposed ? min_i64(p->stride[dim], p->out[dim]) : 1;
}

static inline int64_t convnd_blocks(const struct convnd_params *p)
{
    int64_t results = 1;
    for (int i = 0; i < CONVND_DIMS; i++)
        results *= ceil_div(p->out[i], convnd_grids(p, i));
    return ceil_div(results, CONVND_BLOCK);
}

static inline struct convnd_item convnd_find_item(const struct convnd_params *p, int64_t number)
{
    struct convnd_item item;
    int64_t results = 1;
    for (int i = CONVND_DIMS - 1; i >= 0; i--) {
        const int64_t grids = convnd_grids(p, i);
        item.first[i] = number % grids;
        number /= grids;
        item.step[i] = p->transposed ? p->stride[i] : 1;
        item.x_step[i] = p->transposed ? 1 : p->stride[i];
        item.count[i] = ceil_div(p->out[i] - item.first[i], item.step[i]);
        results *= item.count[i];
    }
    /* Grids of the same block follow each other: they write to the same lines of cache. */
    const int64_t blocks = convnd_blocks(p), block = number % blocks;
    number /= blocks;
    item.group = number % p->group;
    item.image = number / p->group;
    item.begin =
        block * CONVND_BLOCK; /* may lie behind the end of a grid that is not the largest */
    item.end = min_i64(item.begin + CONVND_BLOCK, results);
    return item;
}

/* Whether results of a grid meet tap k of a dim; `offset` as above. */
static inline bool convnd_meets(const struct convnd_params *p, const struct convnd_item *item,
                                int dim, int64_t k, int64_t *offset)
{
    if (!p->transposed) {
        *offset = k * p->dilation[dim] - p->pad[dim];
        return true;
    }
    const int64_t distance = item->first[dim] + p->pad[dim] - k * p->dilation[dim];
    *offset = distance / p->stride[dim];
    return distance % p->stride[dim] == 0;
}

/* Results of an item in one row: [first, last) of the last dim. `y` is the first one's element of
 * its channel, `column` its number in the item.
 */
struct convnd_segment {
    int64_t d, h, first, last, y, column;
};

/* Cuts an item into at most CONVND_BLOCK segments; returns their number. */
static inline int convnd_cut(const struct convnd_params *p, const struct convnd_item *item,
                             struct convnd_segment *segments)
{
    int n = 0;
    for (int64_t at = item->begin, next; at < item->end; at = next) {
        const int64_t row = at / item->count[2], first = at % item->count[2];
        struct convnd_segment *s = segments + n++;
        next = min_i64(item->end, at - first + item->count[2]);
        s->d = row / item->count[1];
        s->h = row % item->count[1];
        s->first = first;
        s->last = first + next - at;
        s->column = at - item->begin;
        s->y = ((item->first[0] + s->d * item->step[0]) * p->out[1] + item->first[1] +
                s->h * item->step[1]) *
                   p->out[2] +
               item->first[2] + first * item->step[2];
    }
    return n;
}

/* The part of a segment for which a tap lies inside the input's row. */
static inline struct convnd_segment convnd_inside(const struct convnd_params *p,
                                                  struct convnd_segment s, int64_t x_step,
                                                  int64_t offset)
{
    int64_t low = -offset, high = p->in[2] - offset;
    if (x_step > 1) { /* a division takes as long as a short segment */
        low = offset < 0 ? ceil_div(-offset, x_step) : 0;
        high = offset < p->in[2] ? (p->in[2] - 1 - offset) / x_step + 1 : 0;
    }
    if (low > s.first) {
        s.column += low - s.first;
        s.first = low;
    }
    s.last = min_i64(s.last, high);
    return s;
}

#endif
