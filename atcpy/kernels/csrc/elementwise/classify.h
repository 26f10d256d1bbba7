/* classify: y = low ≤ (the bits of x & mask) ≤ high, element by element: IsNaN and IsInf of every
 * type that has patterns of bits for them.
 *
 *     x   n elements of `item` bytes
 *     y   n elements, bool
 */
#ifndef ATC_CLASSIFY_H
#define ATC_CLASSIFY_H

#include "core/kernel.h"

#define CLASSIFY_FIELDS(I64, I64S, F64, ENUM) I64(n) I64(item) I64(mask) I64(low) I64(high)
DECLARE_PARAMS(classify, CLASSIFY_FIELDS)

enum { CLASSIFY_CHUNK = 1 << 14 }; /* elements of a work item */

#endif
