/* pad: y with borders around x in any mode, however wide: what a few copies cannot say.
 *
 *     x      what is kept of it has `sizes`, lies with x_strides, and begins at x_offset
 *     value  one element for the mode constant; left out: zero
 *     y      dims, row-major; place i of a dim is place i - before of what is kept
 *
 * Outside [0, size), edge takes the nearest place, wrap goes round, reflect there and back.
 */
#ifndef ATC_PAD_H
#define ATC_PAD_H

#include "core/kernel.h"

extern const char *const pad_names[];

#define PAD_FIELDS(I64, I64S, F64, ENUM)                                                           \
    ENUM(mode, pad_names)                                                                          \
    I64(rank) I64S(dims, 8) I64S(sizes, 8) I64S(before, 8) I64S(x_strides, 8) I64(x_offset) I64(item)
DECLARE_PARAMS(pad, PAD_FIELDS)

/* In the order of `pad_names` (pad.c). */
enum { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_WRAP };
enum { PAD_X, PAD_VALUE, PAD_OPERANDS };

/* Rows, along the last dim, that an item makes. */
static inline int64_t pad_rows_per_item(const struct pad_params *p)
{
    enum { ITEM_ELEMENTS = 4096 };
    const int64_t rows = ITEM_ELEMENTS / (p->dims[p->rank - 1] + 1);
    return rows < 1 ? 1 : rows;
}

#endif
