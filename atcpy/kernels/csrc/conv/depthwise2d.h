/* depthwise2d: conv2d with one filter a channel. Its operands are conv2d's with m = c, but for
 *
 *     w  C1HWC0: [c1, kh, kw, 16], of the type that `weights` names
 */
#ifndef ATC_DEPTHWISE2D_H
#define ATC_DEPTHWISE2D_H

#include "conv/conv2d.h"

#define DEPTHWISE2D_FIELDS(I64, I64S, F64, ENUM)                                                   \
    CONV2D_WINDOW(I64) CONV2D_TYPES(ENUM) CONV2D_FINISH(F64, ENUM)
DECLARE_PARAMS(depthwise2d, DEPTHWISE2D_FIELDS)

/* An item is DW_ROWS rows of results of one block of channels of one picture. */
enum { DW_ROWS = 8 };

static inline int64_t dw_chunks(const struct depthwise2d_params *p)
{
    return ceil_div(p->oh, DW_ROWS);
}

/* The rows of results that an item makes, and where the planes of its block lie, which are of the
 * types of the task.
 */
struct dw_item {
    int64_t first_row, end_row;
    const float *x;
    const float *w;
    const float *residual; /* NULL: none */
    float *y;
    float bias[CONV_C0];
};

/* Weights of 16 bits go through the scratch. */
struct dw_item dw_item_at(const struct kernel_args *args, int64_t item, widen_fn *widen);

struct dw_range {
    int64_t begin, end; /* nothing is in it if end ≤ begin */
};

/* The taps of `k`, the first at `start` and `dilation` apart, that lie inside [0, size). */
static inline struct dw_range dw_taps_inside(int64_t start, int64_t dilation, int64_t k,
                                             int64_t size)
{
    struct dw_range taps = {0, k};
    if (start < 0)
        taps.begin = (-start + dilation - 1) / dilation;
    if (start + (k - 1) * dilation >= size)
        taps.end = start >= size ? 0 : (size - start + dilation - 1) / dilation;
    return taps;
}

#endif
