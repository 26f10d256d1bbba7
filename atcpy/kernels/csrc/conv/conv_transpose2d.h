/* conv_transpose2d: activation(conv_transpose(x, w) + bias + residual), in two spatial dims.
 *
 *     x         NC1HWC0
 *     w         N1C1HWC0N0 of the weights as [m, c/group, kh, kw], of `weights`: as conv2d's
 *     bias      [m], optional
 *     residual  NC1HWC0, of the result's dims, optional; may be the destination itself
 *     scale     as conv2d's
 *     y         NC1HWC0; element (oh, ow) sums x[ih, iw] · w[i, j] over ih · sh + i · dh = oh + pt
 *               and iw · sw + j · dw = ow + pl
 *
 * Groups are as in conv2d. Results whose oh and ow leave the same remainders by sh and sw are a
 * convolution of x with those taps of w that hit them: conv2d's micro-kernels run it.
 */
#ifndef ATC_CONV_TRANSPOSE2D_H
#define ATC_CONV_TRANSPOSE2D_H

#include "conv/conv2d.h"

#define CONV_TRANSPOSE2D_FIELDS(I64, I64S, F64, ENUM)                                              \
    I64(n)                                                                                         \
    I64(c) I64(h) I64(w) I64(m) I64(oh) I64(ow) I64(kh) I64(kw) I64(sh) I64(sw) I64(dh) I64(dw)    \
        I64(pt) I64(pl) I64(group) I64(cg) I64(mg) ENUM(weights, weight_types)                     \
            ENUM(activation, activation_names) F64(alpha) F64(beta)
DECLARE_PARAMS(conv_transpose2d, CONV_TRANSPOSE2D_FIELDS)

#endif
