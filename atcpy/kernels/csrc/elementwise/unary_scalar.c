/* unary of floats by its definition, float32 computed in float64 and rounded once: the oracle of
 * the other rows, and the path of any other CPU.
 */
#include "core/pieces.h"
#include "elementwise/unary.h"

#include <math.h>

/* Elements of a run, and the work of one as a meter counts it: some functions take a hundred times
 * longer than others, and for some numbers.
 */
enum { FUNCTION_RUN = 1024, FUNCTION_WORK = 16 };

static double clip(double x, double low, double high)
{
    const double raised = x < low ? low : x;
    return raised > high ? high : raised;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}

static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x * x; /* zero loses its sign, NaN passes */
}

static double shrink(double x, double threshold, double bias)
{
    return x < -threshold ? x + bias : x > threshold ? x - bias : 0;
}

static double unary_value(enum unary_op op, double x, double alpha, double beta)
{
    switch (op) {
    case UNARY_RELU:
        return x < 0 ? 0 : x;
    case UNARY_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case UNARY_CLIP:
        return clip(x, alpha, beta);
    case UNARY_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case UNARY_ABS:
        return fabs(x);
    case UNARY_NEG:
        return -x;
    case UNARY_SIGN:
        return sign(x);
    case UNARY_FLOOR:
        return floor(x);
    case UNARY_CEIL:
        return ceil(x);
    case UNARY_ROUND:
        return rint(x);
    case UNARY_SQRT:
        return sqrt(x);
    case UNARY_RECIPROCAL:
        return 1 / x;
    case UNARY_DIVS:
        return x / alpha;
    case UNARY_POW:
        return pow(x, alpha);
    case UNARY_EXP:
        return exp(x);
    case UNARY_LOG:
        return log(x);
    case UNARY_ERF:
        return erf(x);
    case UNARY_SIGMOID:
        return sigmoid(x);
    case UNARY_HARD_SIGMOID:
        return clip(alpha * x + beta, 0, 1);
    case UNARY_SWISH:
        return x * sigmoid(alpha * x);
    case UNARY_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case UNARY_MISH:
        return x * tanh(softplus(x));
    case UNARY_GELU:
        return x / 2 * (1 + erf(x * 0.70710678118654752));
    case UNARY_GELU_TANH: /* (1 + tanh u) / 2 = sigmoid(2u) */
        return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x));
    case UNARY_ELU:
        return x < 0 ? alpha * expm1(x) : x;
    case UNARY_SELU:
        return beta * (x < 0 ? alpha * expm1(x) : x);
    case UNARY_CELU:
        return x < 0 ? alpha * expm1(x / alpha) : x;
    case UNARY_SOFTPLUS:
        return softplus(x);
    case UNARY_SOFTSIGN:
        return x / (1 + fabs(x));
    case UNARY_TANH:
        return tanh(x);
    case UNARY_SHRINK:
        return shrink(x, alpha, beta);
    case UNARY_SIN:
        return sin(x);
    case UNARY_COS:
        return cos(x);
    case UNARY_TAN:
        return tan(x);
    case UNARY_ASIN:
        return asin(x);
    case UNARY_ACOS:
        return acos(x);
    case UNARY_ATAN:
        return atan(x);
    case UNARY_SINH:
        return sinh(x);
    case UNARY_COSH:
        return cosh(x);
    case UNARY_ASINH:
        return asinh(x);
    case UNARY_ACOSH:
        return acosh(x);
    case UNARY_ATANH:
        return atanh(x);
    case UNARY_NOT:
    case UNARY_BITWISE_NOT:
        break;
    }
    return x;
}

#define DEFINE_FLOAT(symbol, type)                                                                 \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct unary_params *p = args->params;                                               \
        const type *x = args->src[0];                                                              \
        type *y = args->dst[0];                                                                    \
        const enum unary_op op = (enum unary_op)p->op;                                             \
        const int64_t end = unary_end(p, args);                                                    \
        struct atc_meter meter = {.args = args};                                                   \
        for (int64_t at = args->begin * UNARY_CHUNK;                                               \
             at < end && !atc_spend(&meter, FUNCTION_RUN * FUNCTION_WORK); at += FUNCTION_RUN)     \
            for (int64_t i = at; i < min_i64(at + FUNCTION_RUN, end); i++)                         \
                y[i] = (type)unary_value(op, (double)x[i], p->alpha, p->beta);                     \
    }

DEFINE_FLOAT(unary_f32_scalar, float)
DEFINE_FLOAT(unary_f64_scalar, double)
