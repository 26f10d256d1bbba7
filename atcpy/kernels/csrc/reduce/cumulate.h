/* cumulate: running sums or products along the middle dim.
 *
 *     x, y  [outer, n, inner], numbers of one type, `dtype`
 *
 * y[a] = x[0] ∘ … ∘ x[a]; exclusive, without x[a] itself; reverse, from the end. Integers wrap
 * around, and 16-bit floats are rounded after each step, as numpy does.
 */
#ifndef ATC_CUMULATE_H
#define ATC_CUMULATE_H

#include "core/kernel.h"

extern const char *const cumulate_names[];

#define CUMULATE_FIELDS(I64, I64S, F64, ENUM)                                                      \
    ENUM(kind, cumulate_names)                                                                     \
    I64(outer) I64(n) I64(inner) I64(exclusive) I64(reverse) I64(dtype)
DECLARE_PARAMS(cumulate, CUMULATE_FIELDS)

/* In the order of `cumulate_names` (cumulate.c). */
enum { CUMULATE_SUM, CUMULATE_PROD };
enum { CUMULATE_CHUNK = 1024 }; /* columns of an item */

#endif
