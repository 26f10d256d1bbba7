/* cast: y = x in another element type, by ONNX's rules.
 *
 *     x   n elements of type `from`
 *     y   n elements of type `to`
 *
 * Floats round to nearest even, and become infinite out of range. Floats to integers truncate;
 * where ONNX leaves the result open, it is what x86 gives: int32 and narrower go through 32 bits,
 * of which the narrower keep the low ones, the others through 64; what does not fit there (NaN too)
 * becomes the least number. Integers keep their low bits. Any byte of a bool but 0 is true.
 */
#ifndef ATC_CAST_H
#define ATC_CAST_H

#include "kernel.h"

/* In the order of `cast_types` (cast.c). */
enum cast_type {
    CAST_F32,
    CAST_F64,
    CAST_F16,
    CAST_BF16,
    CAST_I8,
    CAST_I16,
    CAST_I32,
    CAST_I64,
    CAST_U8,
    CAST_U16,
    CAST_U32,
    CAST_U64,
    CAST_BOOL,
};

#define CAST_FIELDS(I64, I64S, F64, ENUM) I64(n) ENUM(from, cast_types) ENUM(to, cast_types)
DECLARE_PARAMS(cast, CAST_FIELDS)

enum { CAST_CHUNK = 1 << 14 }; /* elements of a work item */

#endif
