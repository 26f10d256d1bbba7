/* compress: the slices along the middle dim whose condition is true.
 *
 *     x          [outer, n, inner]
 *     condition  [conditions], bool; slices beyond it are left out
 *     y          [outer, count, inner]: room for [outer, n, inner]
 *     count      how many there are, one int64
 *
 * A condition that is true beyond n is a fault.
 */
#ifndef ATC_COMPRESS_H
#define ATC_COMPRESS_H

#include "core/kernel.h"

#define COMPRESS_FIELDS(I64, I64S, F64, ENUM)                                                      \
    I64(outer) I64(n) I64(inner) I64(item) I64(conditions)
DECLARE_PARAMS(compress, COMPRESS_FIELDS)

enum { COMPRESS_X, COMPRESS_CONDITION, COMPRESS_OPERANDS };
enum { COMPRESS_Y, COMPRESS_COUNT, COMPRESS_RESULTS };

#endif
