/* nms: of each class the boxes of the highest scores that do not lie over a chosen one.
 *
 *     boxes   [batches, n, 4], float: two corners (y, x, y, x), or the centre and the sides (x, y,
 * w, h) scores  [batches, classes, n], float most    one int64, how many to choose of a class; left
 * out: 0 iou     one float, the part of their union that two may share; left out: 0 least   one
 * float that scores must be above; left out: none y       [count, 3], int64: batch, class, box;
 * room for `room` boxes of each class count   how many there are, one int64
 *
 * Of equal scores, the first box comes first; NaN is the highest.
 */
#ifndef ATC_NMS_H
#define ATC_NMS_H

#include "core/kernel.h"

#define NMS_FIELDS(I64, I64S, F64, ENUM) I64(batches) I64(classes) I64(n) I64(room) I64(centred)
DECLARE_PARAMS(nms, NMS_FIELDS)

enum { NMS_BOXES, NMS_SCORES, NMS_MOST, NMS_IOU, NMS_LEAST, NMS_OPERANDS };
enum { NMS_Y, NMS_COUNT, NMS_RESULTS };

#endif
