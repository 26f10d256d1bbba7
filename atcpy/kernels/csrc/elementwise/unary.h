/* unary: y = op(x), element by element, of one type; y may be x.
 *
 *     x, y   n elements
 *
 * Sources are read and results written by their number alone: the format does not matter, and
 * padding elements give whatever they give.
 */
#ifndef ATC_UNARY_H
#define ATC_UNARY_H

#include "core/kernel.h"

enum unary_op {
    UNARY_RELU,
    UNARY_LEAKY_RELU,       /* x < 0: alpha·x */
    UNARY_CLIP,             /* to [alpha, beta]; integers: to [low, high]; the upper bound wins */
    UNARY_THRESHOLDED_RELU, /* x > alpha ? x : 0 */
    UNARY_ABS,
    UNARY_NEG, /* integers wrap */
    UNARY_SIGN,
    UNARY_FLOOR,
    UNARY_CEIL,
    UNARY_ROUND, /* halves to even */
    UNARY_SQRT,
    UNARY_RECIPROCAL,
    UNARY_DIVS, /* x / alpha */
    UNARY_POW,  /* x ^ alpha */
    UNARY_EXP,
    UNARY_LOG,
    UNARY_ERF,
    UNARY_SIGMOID,
    UNARY_HARD_SIGMOID, /* clip(alpha·x + beta, 0, 1) */
    UNARY_SWISH,        /* x · sigmoid(alpha·x) */
    UNARY_HARD_SWISH,   /* x · clip(x/6 + 1/2, 0, 1) */
    UNARY_MISH,         /* x · tanh(ln(1 + e^x)) */
    UNARY_GELU,         /* x/2 · (1 + erf(x/√2)) */
    UNARY_GELU_TANH,    /* x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³))) */
    UNARY_ELU,          /* x < 0: alpha·(e^x − 1) */
    UNARY_SELU,         /* beta·(x < 0: alpha·(e^x − 1)) */
    UNARY_CELU,         /* x < 0: alpha·(e^(x/alpha) − 1) */
    UNARY_SOFTPLUS,     /* ln(1 + e^x) */
    UNARY_SOFTSIGN,     /* x / (1 + |x|) */
    UNARY_TANH,
    UNARY_LAST_VECTOR = UNARY_TANH, /* ops from here on have scalar rows only */
    UNARY_SHRINK,                   /* x < −alpha: x + beta; x > alpha: x − beta; else 0 */
    UNARY_SIN,
    UNARY_COS,
    UNARY_TAN,
    UNARY_ASIN,
    UNARY_ACOS,
    UNARY_ATAN,
    UNARY_SINH,
    UNARY_COSH,
    UNARY_ASINH,
    UNARY_ACOSH,
    UNARY_ATANH,
    UNARY_NOT, /* bool */
    UNARY_BITWISE_NOT,
};

#define UNARY_FIELDS(I64, I64S, F64, ENUM)                                                         \
    I64(n) ENUM(op, unary_names) F64(alpha) F64(beta) I64(low) I64(high)
DECLARE_PARAMS(unary, UNARY_FIELDS)

enum { UNARY_CHUNK = 1 << 14 }; /* elements of a work item */

/* The elements that a call works on. */
static inline int64_t unary_end(const struct unary_params *p, const struct kernel_args *args)
{
    const int64_t end = args->end * UNARY_CHUNK;
    return end < p->n ? end : p->n;
}

#endif
