/* elements: GatherElements and ScatterElements: single elements named by an index along one axis.
 *
 *     x        gather: the data; scatter: the updates
 *     indices  int32 or int64
 *     y        gather: the result; scatter: holds the data already, and gets the updates
 *
 * For every place below `dims` there is a lane: `count` indices, index_step apart, and `size`
 * elements of the data, data_step apart. Gather reads data[lane][index] into y[lane][i], where y
 * lies as the indices do; scatter puts x[lane][i] to y[lane][index], in order of i. Lanes are
 * independent, so that indices that repeat give the same on any number of threads. Steps and
 * strides count elements; `dtype` is that of x where updates are combined. A negative index counts
 * from the end; one outside is a fault.
 */
#ifndef ATC_ELEMENTS_H
#define ATC_ELEMENTS_H

#include "move/combine_kind.h"
#include "core/kernel.h"

extern const char *const elements_names[];

#define ELEMENTS_FIELDS(I64, I64S, F64, ENUM)                                                      \
    ENUM(kind, elements_names)                                                                     \
    I64(rank) I64S(dims, 8) I64S(index_strides, 8) I64S(data_strides, 8) I64(count) I64(index_step) \
        I64(size) I64(data_step) I64(item) I64(index_item) I64(dtype)
DECLARE_PARAMS(elements, ELEMENTS_FIELDS)

enum { ELEMENTS_X, ELEMENTS_INDICES, ELEMENTS_OPERANDS };

/* The first kinds are those of combine_kind. */
enum { ELEMENTS_GATHER = COMBINE_KINDS };

/* Lanes that an item makes. */
static inline int64_t elements_lanes_per_item(const struct elements_params *p)
{
    enum { ITEM_INDICES = 1024 };
    const int64_t lanes = ITEM_INDICES / (p->count + 1);
    return lanes < 1 ? 1 : lanes;
}

#endif
