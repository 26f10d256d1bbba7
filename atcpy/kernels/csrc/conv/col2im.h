/* col2im: sums columns of blocks into the image that the blocks were cut from.
 *
 *     x  [planes, kernel…, cols…]
 *     y  [planes, image…]; tap k of block j is added to element i = j · stride + k · dilation − pad
 */
#ifndef ATC_COL2IM_H
#define ATC_COL2IM_H

#include "core/kernel.h"

enum { COL2IM_DIMS = 3 };

#define COL2IM_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(planes)                                                                                    \
    I64S(image, COL2IM_DIMS) I64S(kernel, COL2IM_DIMS) I64S(cols, COL2IM_DIMS)                     \
        I64S(stride, COL2IM_DIMS) I64S(dilation, COL2IM_DIMS) I64S(pad, COL2IM_DIMS)
DECLARE_PARAMS(col2im, COL2IM_FIELDS)

enum { COL2IM_ROW_TAPS = 16 }; /* along the last dim, at most, where rows are summed in vectors */

bool col2im_is_small(const struct task_view *task);

#endif
