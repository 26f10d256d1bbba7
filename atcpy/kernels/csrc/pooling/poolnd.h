/* poolnd: the largest element, the mean or the p-norm of each window, in up to three spatial dims
 * of plain tensors; for the largest, where it lies, too.
 *
 *     x        [planes, in…]
 *     y        [planes, out…]
 *     indices  [planes, out…], int64, optional and of max only: indices into the whole of x, row by
 * row or, with column_major, with each plane's first dim varying fastest; −1 for a window that lies
 * in the padding altogether
 *
 * max and avg are as in pool2d. lp: (Σ|x|^p)^(1/p); padding counts as 0.
 */
#ifndef ATC_POOLND_H
#define ATC_POOLND_H

#include "pooling/pool2d.h"

enum { POOLND_DIMS = 3 };
enum poolnd_kind { POOLND_MAX, POOLND_AVG, POOLND_LP };
extern const char *const poolnd_kinds[];

#define POOLND_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(planes)                                                                                    \
    I64S(in, POOLND_DIMS) I64S(out, POOLND_DIMS) I64S(kernel, POOLND_DIMS)                         \
        I64S(stride, POOLND_DIMS) I64S(dilation, POOLND_DIMS) I64S(pad_begin, POOLND_DIMS)         \
            I64S(pad_end, POOLND_DIMS) ENUM(kind, poolnd_kinds) I64(include_pad) I64(p)            \
                I64(column_major)
DECLARE_PARAMS(poolnd, POOLND_FIELDS)

/* As pool2d_is_long. */
static inline bool poolnd_is_long(const struct poolnd_params *p)
{
    return atc_mul(p->out[2], atc_volume(p->kernel)) > ATC_PIECE;
}

/* The taps of the window of result o that lie in the input. */
static inline struct pool2d_taps poolnd_taps(const struct poolnd_params *p, int dim, int64_t o)
{
    return taps_inside(o * p->stride[dim] - p->pad_begin[dim], p->kernel[dim], p->dilation[dim],
                       p->in[dim]);
}

/* What a dim contributes to the number of elements that a mean is over. */
static inline int64_t poolnd_count(const struct poolnd_params *p, int dim, int64_t o)
{
    const struct pool2d_taps taps =
        p->include_pad ? taps_inside(o * p->stride[dim], p->kernel[dim], p->dilation[dim],
                                     p->pad_begin[dim] + p->in[dim] + p->pad_end[dim])
                       : poolnd_taps(p, dim, o);
    return taps.last - taps.first;
}

#endif
