/* pow: y = a ^ b with broadcasting; b may be of another type.
 *
 *     a   of type `base`, walked by dims and strides (broadcast.h)
 *     b   of type `exponent`, walked likewise
 *     y   of a's type, row-major; may be a, where that is walked so without broadcasting
 *
 * Two integers: the product wraps around; below zero it is 1 ÷ the positive power, truncated, and
 * zero to a power below zero is a fault. Otherwise the power is taken in double; an integer result
 * loses its fraction, and what its type does not hold is the least number.
 */
#ifndef ATC_POW_H
#define ATC_POW_H

#include "core/broadcast.h"

/* In the order of `pow_types` (pow.c); bases are the first four. */
enum pow_type {
    POW_F32,
    POW_F64,
    POW_I32,
    POW_I64,
    POW_LAST_BASE = POW_I64,
    POW_I8,
    POW_I16,
    POW_U8,
    POW_U16,
    POW_U32,
    POW_U64,
};

/* The type of a number of enum atc_dtype, or −1. */
int64_t pow_type_of(int dtype);

#define POW_FIELDS(I64, I64S, F64, ENUM)                                                           \
    I64(rank) ENUM(base, pow_types) ENUM(exponent, pow_types) I64S(dims, 8) I64S(a_strides, 8) I64S(b_strides, 8)
DECLARE_PARAMS(pow, POW_FIELDS)

static inline struct broadcast pow_walk(const struct pow_params *p)
{
    return (struct broadcast){p->rank, p->dims, 2, {p->a_strides, p->b_strides, NULL}};
}

#endif
