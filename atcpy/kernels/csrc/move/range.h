/* range: y[i] = start + i · delta for i below n.
 *
 * Two operands of one element, of the type of y: int16, int32, int64, float32 or float64. Integers
 * wrap around; floats are rounded after the product and after the sum.
 */
#ifndef ATC_RANGE_H
#define ATC_RANGE_H

#include "core/kernel.h"

enum { RANGE_START, RANGE_DELTA, RANGE_OPERANDS };
enum { RANGE_CHUNK = 4096 }; /* elements of an item */

#define RANGE_FIELDS(I64, I64S, F64, ENUM) I64(n) I64(dtype)
DECLARE_PARAMS(range, RANGE_FIELDS)

#endif
