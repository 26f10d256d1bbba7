/* cast: y = x in another element type, by ONNX's rules.
 *
 *     x   n elements of type `from`
 *     y   n elements of type `to`
 *
 * Floats round to nearest even, and become infinite out of range. Floats to integers truncate;
 * where ONNX leaves the result open, it is what x86 gives: int32 and narrower go through 32 bits,
 * of which the narrower keep the low ones, the others through 64; what does not fit there (NaN too)
 * becomes the least number. Integers keep their low bits. Any byte of a bool but 0 is true.
 * Elements of 2 and 4 bits are packed, the first in the low bits; bits beyond the last are 0.
 *
 * To floats of 8 bits: what is out of range becomes the largest number with `saturate`, else
 * infinity or NaN. To float4e2m1 it always becomes the largest; NaN, which that lacks, becomes a
 * zero. float8e8m0 has powers of two only: `round` says which, and the sign is dropped.
 */
#ifndef ATC_CAST_H
#define ATC_CAST_H

#include "core/kernel.h"

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
    CAST_LAST_WHOLE = CAST_BOOL, /* types from here on go by way of one before */
    CAST_F8E4M3FN,
    CAST_F8E4M3FNUZ,
    CAST_F8E5M2,
    CAST_F8E5M2FNUZ,
    CAST_F4E2M1,
    CAST_F8E8M0,
    CAST_I4,
    CAST_U4,
    CAST_I2,
    CAST_U2,
    CAST_TYPES,
};

/* The type of a number of enum atc_dtype, or −1. */
int64_t cast_type_of(int dtype);

enum cast_round { CAST_UP, CAST_DOWN, CAST_NEAREST };
extern const char *const cast_rounds[];

#define CAST_FIELDS(I64, I64S, F64, ENUM) I64(n) ENUM(from, cast_types) ENUM(to, cast_types) I64(saturate) ENUM(round, cast_rounds)
DECLARE_PARAMS(cast, CAST_FIELDS)

enum { CAST_CHUNK = 1 << 14 }; /* elements of a work item */

#endif
