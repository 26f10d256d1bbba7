/* gather: dst[o][k] = data[o][index(o, k)], rows of `inner` elements.
 *
 *     data     [outer, dims[0], …, dims[depth - 1], inner]
 *     indices  [count, depth], or with index_stride = count · depth one such a place of `outer`
 *     dst      [outer, count, inner]
 *
 * An index is `depth` numbers of index_item bytes, 4 or 8. A negative number counts from the end of
 * its dim; one outside [-dim, dim) is a fault, and its row is left as it is.
 */
#ifndef ATC_GATHER_H
#define ATC_GATHER_H

#include "core/kernel.h"

#define GATHER_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(outer) I64(index_stride) I64(count) I64(depth) I64S(dims, 8) I64(inner) I64(item)          \
        I64(index_item)
DECLARE_PARAMS(gather, GATHER_FIELDS)

enum { GATHER_DATA, GATHER_INDICES, GATHER_OPERANDS };

/* Rows that an item copies: some kilobytes. */
static inline int64_t gather_rows_per_item(const struct gather_params *p)
{
    enum { ITEM_BYTES = 4096 };
    const int64_t rows = ITEM_BYTES / (p->inner * p->item + 1);
    return rows < 1 ? 1 : rows;
}

#endif
