/* nonzero: the places of the elements that are not zero, in row-major order.
 *
 *     x      dims, elements of `item` bytes; as a float, -0 is zero too
 *     y      [rank, count], int64: room for [rank, elements]
 *     count  how many there are, one int64
 */
#ifndef ATC_NONZERO_H
#define ATC_NONZERO_H

#include "core/kernel.h"

#define NONZERO_FIELDS(I64, I64S, F64, ENUM) I64(rank) I64S(dims, 8) I64(item) I64(is_float)
DECLARE_PARAMS(nonzero, NONZERO_FIELDS)

enum { NONZERO_Y, NONZERO_COUNT, NONZERO_RESULTS };

#endif
