/* nms: non-maximum suppression; nms.c has its operands. */
#ifndef ATC_NMS_H
#define ATC_NMS_H

#include "core/kernel.h"

#define NMS_FIELDS(I64, I64S, F64, ENUM) I64(batches) I64(classes) I64(n) I64(room) I64(centred)
DECLARE_PARAMS(nms, NMS_FIELDS)

struct nms_sides {
    float low[2], high[2], area;
};

enum { NMS_SIDES = 5 }; /* floats of a box: the fields in their order */

/* True if a box and one of n others share more of their union than `iou`. Field i of the others
 * begins at others + i · step.
 */
typedef bool (*nms_lies_over)(const struct nms_sides *box, const float *others, int64_t step,
                              int64_t n, float iou);

void nms_choose(const struct kernel_args *args, nms_lies_over lies_over);

#endif
