/* scatter_nd: y[index(k)] = y[index(k)] ∘ updates[k], rows of `inner` elements.
 *
 *     updates  [count, inner]
 *     indices  [count, depth], int32 or int64
 *     y        [dims[0], …, dims[depth - 1], inner], holds the data already
 *
 * Updates come in the order of k, so that indices that repeat give the same on any number of
 * threads: these share the columns. A negative index counts from the end; one outside is a fault.
 */
#ifndef ATC_SCATTER_ND_H
#define ATC_SCATTER_ND_H

#include "move/combine_kind.h"
#include "core/kernel.h"

extern const char *const scatter_nd_names[];

#define SCATTER_ND_FIELDS(I64, I64S, F64, ENUM)                                                    \
    ENUM(kind, scatter_nd_names)                                                                   \
    I64(count) I64(depth) I64S(dims, 8) I64(inner) I64(item) I64(index_item) I64(dtype)
DECLARE_PARAMS(scatter_nd, SCATTER_ND_FIELDS)

enum { SCATTER_ND_UPDATES, SCATTER_ND_INDICES, SCATTER_ND_OPERANDS };
enum { SCATTER_ND_CHUNK = 4096 }; /* columns of an item */

#endif
