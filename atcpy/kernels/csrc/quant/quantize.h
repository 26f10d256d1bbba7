/* quantize: y = saturate(round(x / scale) + zero), halves to even.
 * dequantize: y = (x − zero) · scale.
 *
 *     x      [outer, axis, inner]; float32 where it is quantised, else of the type `type`
 *     scale  float32; element (o, a, i) has the one at o·scale_outer + (a / block)·scale_axis +
 *            i·scale_inner, where scale_inner is 0 or 1
 *     zero   of the type `type`, lies like scale; optional: 0
 *     y      [outer, axis, inner], the type of the other side
 *
 * NaN becomes the least number of the type. int32 and float8 can only be dequantised; the
 * differences of int32 wrap. Types of 4 and 2 bits are packed, zero points too.
 */
#ifndef ATC_QUANTIZE_H
#define ATC_QUANTIZE_H

#include "core/kernel.h"

/* In the order of `quant_types` (quantize.c); from int32 on they are dequantised only. */
enum quant_type {
    QUANT_U8,
    QUANT_I8,
    QUANT_U16,
    QUANT_I16,
    QUANT_U4,
    QUANT_I4,
    QUANT_U2,
    QUANT_I2,
    QUANT_I32,
    QUANT_E4M3FN,
    QUANT_E4M3FNUZ,
    QUANT_E5M2,
    QUANT_E5M2FNUZ,
    QUANT_TYPES,
};

#define QUANTIZE_FIELDS(I64, I64S, F64, ENUM)                                                      \
    I64(outer)                                                                                     \
    I64(axis) I64(inner) I64(block) I64(scale_outer) I64(scale_axis) I64(scale_inner)              \
        ENUM(type, quant_types)
DECLARE_PARAMS(quantize, QUANTIZE_FIELDS)
#define DEQUANTIZE_FIELDS QUANTIZE_FIELDS
DECLARE_PARAMS(dequantize, DEQUANTIZE_FIELDS)

enum { QUANT_X, QUANT_SCALE, QUANT_ZERO, QUANT_OPERANDS };
enum { QUANT_CHUNK = 1 << 14 }; /* elements of a work item */

/* Elements of one row that follow each other: one scale for all, or one each. */
struct quant_run {
    const void *x;
    void *y;
    int64_t n;
    const float *scale;
    const void *zero; /* NULL: 0 */
    bool each;
    int64_t at, zero_at; /* of packed elements: their positions, as x, y and zero are the starts */
};

typedef void (*quant_fn)(const struct quant_run *run);

/* Walks the call's elements; `fns` has one function a type. `x_item` is 0 for the type's own. */
void quantize_drive(const struct kernel_args *args, const quant_fn fns[QUANT_TYPES],
                    bool from_float);

#endif
