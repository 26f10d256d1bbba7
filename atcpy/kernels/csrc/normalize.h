/* normalize: a row less its mean, divided by its deviation, scaled and shifted.
 *
 *     x, y         [rows, n]; y may be x
 *     scale, bias  element i of row r takes entry (r mod period)·(n/run) + i/run; optional
 *
 *     layer  (x − mean) / √(var + epsilon) · scale + bias
 *     rms    x / √(mean of x² + epsilon) · scale + bias
 *
 * LayerNormalization has run = 1, period = 1; GroupNormalization has run = pixels, period = groups.
 */
#ifndef ATC_NORMALIZE_H
#define ATC_NORMALIZE_H

#include "kernel.h"

enum normalize_kind { NORMALIZE_LAYER, NORMALIZE_RMS };
extern const char *const normalize_kinds[];
enum { NORM_X, NORM_SCALE, NORM_BIAS, NORM_OPERANDS };

#define NORMALIZE_FIELDS(I64, I64S, F64, ENUM)                                                     \
    ENUM(kind, normalize_kinds) I64(rows) I64(n) I64(run) I64(period) F64(epsilon)
DECLARE_PARAMS(normalize, NORMALIZE_FIELDS)

#endif
