/* onehot: along the middle dim of the result, `on` where the index says, `off` elsewhere.
 *
 *     indices  [outer, inner], numbers of type `dtype`; floats are cut to integers
 *     values   [off, on], elements of `item` bytes
 *     y        [outer, depth, inner]
 *
 * An index in [-depth, -1] counts from the end; any other outside [0, depth) is nowhere.
 */
#ifndef ATC_ONEHOT_H
#define ATC_ONEHOT_H

#include "core/kernel.h"

#define ONEHOT_FIELDS(I64, I64S, F64, ENUM) I64(outer) I64(depth) I64(inner) I64(item) I64(dtype)
DECLARE_PARAMS(onehot, ONEHOT_FIELDS)

enum { ONEHOT_INDICES, ONEHOT_VALUES, ONEHOT_OPERANDS };

#endif
