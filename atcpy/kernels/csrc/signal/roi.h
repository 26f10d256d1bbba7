/* roi: regions of images, each made [oh, ow]. `align` and `align_max` mix pixels at evenly spread
 * points of each cell; `max` takes the largest pixel of each cell, whose sides are rounded.
 *
 *     x     [n, c, h, w]
 *     rois  [count, 4] as x1, y1, x2, y2, or for `max` [count, 5] with the image's number before
 * them batch [count], int64, the image's number; not for `max` y     [count, c, oh, ow]
 */
#ifndef ATC_ROI_H
#define ATC_ROI_H

#include "core/kernel.h"

enum roi_kind { ROI_ALIGN_AVG, ROI_ALIGN_MAX, ROI_MAX };
extern const char *const roi_kind_names[];

#define ROI_FIELDS(I64, I64S, F64, ENUM)                                                           \
    I64(n)                                                                                         \
    I64(c) I64(h) I64(w) I64(count) I64(oh) I64(ow) I64(sampling) I64(half_pixel) F64(scale)       \
        ENUM(kind, roi_kind_names)
DECLARE_PARAMS(roi, ROI_FIELDS)

enum { ROI_X, ROI_ROIS, ROI_BATCH, ROI_OPERANDS };

#endif
