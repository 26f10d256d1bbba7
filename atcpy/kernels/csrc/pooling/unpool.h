/* unpool: elements at the places that a pool took them from, and 0 elsewhere.
 *
 *     x        [n]
 *     indices  [n], int64: places in [planes, in…], row by row; the last of equal ones counts
 *     y        [planes, out…], whose dims are not below those of `in`
 */
#ifndef ATC_UNPOOL_H
#define ATC_UNPOOL_H

#include "core/kernel.h"

enum { UNPOOL_DIMS = 3 };

#define UNPOOL_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(planes) I64S(in, UNPOOL_DIMS) I64S(out, UNPOOL_DIMS) I64(n) I64(item)
DECLARE_PARAMS(unpool, UNPOOL_FIELDS)

enum { UNPOOL_X, UNPOOL_INDICES, UNPOOL_OPERANDS };

#endif
