/* quant_range: scale and zero point that DynamicQuantizeLinear quantises x with, to uint8.
 *
 *     x      [planes, c1, pixels, c0], float32; in the last of the c1 blocks only c_last channels
 *            count
 *     scale  one float32: (max(x, 0) − min(x, 0)) / 255, or 1 where all of x is 0
 *     zero   one uint8: round(−min(x, 0) / scale), halves to even, saturated
 *
 * A NaN in x counts as nothing.
 */
#ifndef ATC_QUANT_RANGE_H
#define ATC_QUANT_RANGE_H

#include "core/kernel.h"

#define QUANT_RANGE_FIELDS(I64, I64S, F64, ENUM) I64(planes) I64(c1) I64(pixels) I64(c0) I64(c_last)
DECLARE_PARAMS(quant_range, QUANT_RANGE_FIELDS)

enum { RANGE_SCALE, RANGE_ZERO, RANGE_RESULTS };
enum { RANGE_LANES = 64 }; /* minima and maxima that are kept side by side */

#endif
