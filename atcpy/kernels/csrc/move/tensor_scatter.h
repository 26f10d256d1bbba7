/* tensor_scatter: rows written into a cache, at a place of its own for each batch.
 *
 *     update  [batch, groups, count, inner]
 *     begin   [batch], int64, where the first row of a batch goes; left out: 0
 *     y       [batch, groups, size, inner], holds the cache already
 *
 * Circular, a row beyond the last goes to the first; else it is a fault.
 */
#ifndef ATC_TENSOR_SCATTER_H
#define ATC_TENSOR_SCATTER_H

#include "core/kernel.h"

#define TENSOR_SCATTER_FIELDS(I64, I64S, F64, ENUM)                                                \
    I64(batch) I64(groups) I64(count) I64(size) I64(inner) I64(item) I64(circular)
DECLARE_PARAMS(tensor_scatter, TENSOR_SCATTER_FIELDS)

enum { TENSOR_SCATTER_UPDATE, TENSOR_SCATTER_BEGIN, TENSOR_SCATTER_OPERANDS };

#endif
