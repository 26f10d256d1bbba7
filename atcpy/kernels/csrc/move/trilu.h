/* trilu: a triangle of each matrix, the rest zero.
 *
 *     x, y  [matrices, rows, cols], elements of `item` bytes
 *     k     one int64, or left out for 0
 *
 * With `upper`, y[i][j] = x[i][j] where j >= i + k, without where j <= i + k. y may be x.
 */
#ifndef ATC_TRILU_H
#define ATC_TRILU_H

#include "core/kernel.h"

#define TRILU_FIELDS(I64, I64S, F64, ENUM) I64(matrices) I64(rows) I64(cols) I64(upper) I64(item)
DECLARE_PARAMS(trilu, TRILU_FIELDS)

enum { TRILU_X, TRILU_K, TRILU_OPERANDS };

/* Rows that an item makes: some kilobytes. */
static inline int64_t trilu_rows_per_item(const struct trilu_params *p)
{
    enum { ITEM_BYTES = 16384 };
    const int64_t rows = ITEM_BYTES / (p->cols * p->item + 1);
    return rows < 1 ? 1 : rows;
}

#endif
