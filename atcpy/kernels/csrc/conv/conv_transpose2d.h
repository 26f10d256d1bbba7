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
    CONV2D_SIZES(I64) CONV2D_FINISH(F64, ENUM)
DECLARE_PARAMS(conv_transpose2d, CONV_TRANSPOSE2D_FIELDS)

#endif
