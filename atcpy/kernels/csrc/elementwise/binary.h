/* binary: y = op(a, b) with broadcasting; a and b of one type.
 *
 *     a, b   walked by dims and strides (broadcast.h)
 *     y      row-major; bool for comparisons, else of the operands' type. May be a or b, where that
 *            is walked row-major without broadcasting.
 *
 * Padding elements give whatever they give, but for integer Div and Mod: a zero divisor is a fault
 * wherever it lies, so these two do not take blocked formats.
 */
#ifndef ATC_BINARY_H
#define ATC_BINARY_H

#include "core/broadcast.h"

enum binary_op {
    BINARY_ADD, /* integers wrap */
    BINARY_SUB,
    BINARY_MUL,
    BINARY_DIV, /* integers truncate; by zero is a fault, the least by −1 wraps */
    BINARY_MAX, /* NaN if either is */
    BINARY_MIN,
    BINARY_PRELU, /* a < 0 ? a·b : a */
    BINARY_EQUAL,
    BINARY_LESS,
    BINARY_GREATER,
    BINARY_LESS_OR_EQUAL,
    BINARY_GREATER_OR_EQUAL,
    BINARY_LAST_VECTOR = BINARY_GREATER_OR_EQUAL, /* ops from here on have scalar rows only */
    BINARY_MOD,                                   /* sign of the divisor, as in Python */
    BINARY_FMOD,                                  /* sign of the dividend, as in C */
    BINARY_AND,                                   /* bool */
    BINARY_OR,
    BINARY_XOR,
    BINARY_BITWISE_AND, /* integers */
    BINARY_BITWISE_OR,
    BINARY_BITWISE_XOR,
    BINARY_SHIFT_LEFT,  /* by less than 0 or by all bits and more: only copies of the sign are left
                         */
    BINARY_SHIFT_RIGHT, /* of signed integers: copies of the sign come in */
};

static inline bool binary_compares(int64_t op)
{
    return op >= BINARY_EQUAL && op <= BINARY_GREATER_OR_EQUAL;
}

#define BINARY_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(rank) ENUM(op, binary_names) I64S(dims, 8) I64S(a_strides, 8) I64S(b_strides, 8)
DECLARE_PARAMS(binary, BINARY_FIELDS)

static inline struct broadcast binary_walk(const struct binary_params *p)
{
    return (struct broadcast){p->rank, p->dims, 2, {p->a_strides, p->b_strides, NULL}};
}

/* float32 ops up to BINARY_LAST_VECTOR on n elements in a row; an operand that does not move is one
 * element. dst may be an operand that moves.
 */
typedef void binary_run_fn(enum binary_op op, const void *a, const void *b, void *dst, int64_t n,
                           bool a_moves, bool b_moves);
binary_run_fn binary_run_sse2, binary_run_neon, binary_run_avx2, binary_run_avx512f;

#endif
