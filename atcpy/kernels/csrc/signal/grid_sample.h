/* grid_sample: images at positions that a grid says, between −1 and 1 in each dim.
 *
 *     x     [n, c, in…]      in two dims the first of three is 1
 *     grid  [n, out…, dims]  the last dim of the image first
 *     y     [n, c, out…]
 */
#ifndef ATC_GRID_SAMPLE_H
#define ATC_GRID_SAMPLE_H

#include "core/pieces.h"

enum { GRID_DIMS = 3, GRID_TAPS = 4 };
enum { GRID_OUTSIDE = -8 }; /* a position whose taps are all outside */
enum grid_mode { GRID_NEAREST, GRID_LINEAR, GRID_CUBIC };
enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };
extern const char *const grid_mode_names[], *const grid_padding_names[];

#define GRID_SAMPLE_FIELDS(I64, I64S, F64, ENUM)                                                   \
    I64(n)                                                                                         \
    I64(c) I64S(in, GRID_DIMS) I64S(out, GRID_DIMS) I64(dims) ENUM(mode, grid_mode_names)          \
        ENUM(padding, grid_padding_names) I64(align_corners)
DECLARE_PARAMS(grid_sample, GRID_SAMPLE_FIELDS)

enum { GRID_X, GRID_GRID, GRID_OPERANDS };

/* Channels that are sampled at all points of an image before the next ones: points may lie
 * anywhere, so they meet memory for each element if images are larger than caches, and their planes
 * are not.
 */
static inline int64_t grid_sample_group(const struct grid_sample_params *p)
{
    const int64_t cached = (int64_t)1 << 21; /* elements that one core finds in caches mostly */
    const int64_t plane = atc_volume(p->in);
    return plane > cached || atc_mul(plane, p->c) <= 2 * cached ? p->c : cached / plane;
}

/* A work item: a row of the grid for some channels. */
struct grid_item {
    int64_t image, row; /* the row of the image's grid */
    int64_t begin, end; /* channels */
};

static inline struct grid_item grid_item_at(const struct grid_sample_params *p, int64_t item)
{
    const int64_t rows = p->out[0] * p->out[1], group = grid_sample_group(p);
    const int64_t groups = ceil_div(p->c, group), begin = item / rows % groups * group;
    return (struct grid_item){item / rows / groups, item % rows, begin,
                              min_i64(begin + group, p->c)};
}

#endif
