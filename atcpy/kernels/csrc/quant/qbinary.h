/* qbinary: y = quantise(op(dequantise(a), dequantise(b))) on bytes, with broadcasting.
 *
 *     a, b             8-bit integers, walked by dims and strides (broadcast.h)
 *     *_scale, *_zero  one float32, and one of the operand's type, which may be absent: 0
 *     y                row-major, 8-bit integers
 *
 * The arithmetic is that of DequantizeLinear, the op in float32, and QuantizeLinear: to the bit.
 */
#ifndef ATC_QBINARY_H
#define ATC_QBINARY_H

#include "core/broadcast.h"

enum qbinary_op { QBINARY_ADD, QBINARY_MUL };

#define QBINARY_FIELDS(I64, I64S, F64, ENUM)                                                       \
    I64(rank)                                                                                      \
    ENUM(op, qbinary_names) I64S(dims, 8) I64S(a_strides, 8) I64S(b_strides, 8) I64(a_signed)      \
        I64(b_signed) I64(y_signed)
DECLARE_PARAMS(qbinary, QBINARY_FIELDS)

enum {
    QBINARY_A,
    QBINARY_A_SCALE,
    QBINARY_A_ZERO,
    QBINARY_B,
    QBINARY_B_SCALE,
    QBINARY_B_ZERO,
    QBINARY_Y_SCALE,
    QBINARY_Y_ZERO,
    QBINARY_OPERANDS
};

static inline struct broadcast qbinary_walk(const struct qbinary_params *p)
{
    return (struct broadcast){p->rank, p->dims, 2, {p->a_strides, p->b_strides, NULL}};
}

#endif
