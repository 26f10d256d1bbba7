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

#endif
