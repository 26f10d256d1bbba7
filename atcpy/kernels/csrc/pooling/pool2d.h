/* pool2d: the largest or the mean element of each window, in two spatial dims.
 *
 *     x  [planes, h, w, c0]        planes = N·C1 with c0 = 16 (NC1HWC0), N·C with c0 = 1 (NCHW)
 *     y  [planes, oh, ow, c0]
 *
 * max: NaN if the window has one; −∞, or the least integer, if it lies in the padding altogether.
 * avg: the sum divided by the window's elements inside the input, or inside input and padding with
 * include_pad; 0 if there are none. Elements beyond the end padding, which ceil_mode may reach,
 * never count.
 */
#ifndef ATC_POOL2D_H
#define ATC_POOL2D_H

#include "core/pieces.h"

enum { POOL_C0 = 16 };
enum pool2d_kind { POOL_MAX, POOL_AVG };
extern const char *const pool2d_kinds[];

#define POOL2D_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(planes)                                                                                    \
    I64(h) I64(w) I64(oh) I64(ow) I64(kh) I64(kw) I64(sh) I64(sw) I64(dh) I64(dw) I64(pt) I64(pl)  \
        I64(pb) I64(pr) I64(c0) ENUM(kind, pool2d_kinds) I64(include_pad)
DECLARE_PARAMS(pool2d, POOL2D_FIELDS)

/* Taps [first, last) of a window, along one dim. */
struct pool2d_taps {
    int64_t first, last;
};

/* The taps of a window that begins at `start` and lie in [0, size). */
static inline struct pool2d_taps taps_inside(int64_t start, int64_t taps, int64_t dilation,
                                             int64_t size)
{
    if (start >= 0 && start + (taps - 1) * dilation < size)
        return (struct pool2d_taps){0, taps};
    const int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    int64_t last = start < size ? (size - start + dilation - 1) / dilation : 0;
    last = last < taps ? last : taps;
    return (struct pool2d_taps){first < last ? first : last, last};
}

/* The results of a row, [first, last), all of whose columns lie inside. */
struct pool2d_results {
    int64_t first, last;
};

static inline struct pool2d_results results_inside(const struct pool2d_params *p)
{
    const int64_t room = p->w + p->pl - ((p->kw - 1) * p->dw + 1); /* behind the first window */
    const int64_t last = room < 0 ? 0 : min_i64(room / p->sw + 1, p->ow);
    const int64_t first = ceil_div(p->pl, p->sw);
    return (struct pool2d_results){first < last ? first : last, last};
}

/* True if a row of results may take long enough that it is to ask between. Asking costs as much as
 * some taps: kernels are compiled twice, and where this is false they never ask.
 */
static inline bool pool2d_is_long(const struct pool2d_params *p)
{
    return atc_mul(p->ow, p->kh * p->kw) > ATC_PIECE;
}

/* The taps of a row of a window up to `last`: in pieces, or all at once. */
static inline __attribute__((always_inline)) bool
pool2d_next_taps(const struct kernel_args *args, bool is_long, struct atc_piece *taps, int64_t last)
{
    if (is_long)
        return atc_next_piece(args, taps, last);
    const bool is_first = taps->begin == taps->end;
    taps->end = last;
    return is_first && taps->begin < last;
}

/* Of the kernels that join rows: pool_row_vector.h. */
enum {
    POOL_COUNTS = 512,
    POOL_JOINED = 4096,   /* floats of a joined row at a time: part of L1 */
    POOL_MAX_SPAN = 2048, /* from the first to the last element of a window */
    POOL_MAX_STEP = 64,
    POOL_MAX_ROWS = 1024,
};

/* Whether a part of the joined row holds some vectors of results, and takes microseconds. */
static inline bool pool_row_fits(int64_t rows, int64_t kernel, int64_t stride, int64_t dilation)
{
    return rows <= POOL_MAX_ROWS && atc_mul(kernel, dilation) <= POOL_MAX_SPAN &&
           stride <= POOL_MAX_STEP;
}

/* The number of elements that a mean is over; `y` and `x` are the taps inside the input. */
static inline int64_t pool2d_divisor(const struct pool2d_params *p, int64_t oy, int64_t ox,
                                     struct pool2d_taps y, struct pool2d_taps x)
{
    if (p->include_pad) {
        y = taps_inside(oy * p->sh, p->kh, p->dh, p->pt + p->h + p->pb);
        x = taps_inside(ox * p->sw, p->kw, p->dw, p->pl + p->w + p->pr);
    }
    return (y.last - y.first) * (x.last - x.first);
}

#endif
