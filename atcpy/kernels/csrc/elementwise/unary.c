/* The unary family: its checker and how its work is dealt. */
#include "elementwise/unary.h"

static const char *const unary_names[] = {
    "Relu",      "LeakyRelu", "Clip",        "ThresholdedRelu",
    "Abs",       "Neg",       "Sign",        "Floor",
    "Ceil",      "Round",     "Sqrt",        "Reciprocal",
    "Divs",      "Pow",       "Exp",         "Log",
    "Erf",       "Sigmoid",   "HardSigmoid", "Swish",
    "HardSwish", "Mish",      "Gelu",        "GeluTanh",
    "Elu",       "Selu",      "Celu",        "Softplus",
    "Softsign",  "Tanh",      "Shrink",      "Sin",
    "Cos",       "Tan",       "Asin",        "Acos",
    "Atan",      "Sinh",      "Cosh",        "Asinh",
    "Acosh",     "Atanh",     "Not",         "BitwiseNot",
    NULL};

static_assert(sizeof unary_names / sizeof unary_names[0] == UNARY_BITWISE_NOT + 2, "a name each");

/* Which ops a type has; each row relies on it. */
static bool has_op(int dtype, int64_t op)
{
    switch (dtype) {
    case DTYPE_F32:
    case DTYPE_F64:
        return op < UNARY_NOT;
    case DTYPE_BOOL:
        return op == UNARY_NOT;
    default:
        return op == UNARY_RELU || op == UNARY_CLIP || op == UNARY_ABS || op == UNARY_NEG ||
               op == UNARY_SIGN || op == UNARY_SHRINK || op == UNARY_BITWISE_NOT;
    }
}

static const char *check(const struct task_view *task)
{
    const struct unary_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n))
        return "a size is out of range";
    const int dtype = task->src[0].dtype;
    const int64_t item = atc_item_bytes(dtype);
    if (item == 0 || !has_op(dtype, p->op))
        return "no such op on this type";
    if (!atc_holds(task, task->src, DTYPE_ANY, p->n, item) ||
        !atc_holds(task, task->dst, (enum atc_dtype)dtype, p->n, item))
        return "an operand is too small or of another type";
    return NULL;
}

/* Element operations of an element, at least one. */
static int64_t element_work(int64_t op)
{
    enum { OF_DOUBLES = 8, OF_LIBM = 32 };
    if (op >= UNARY_SIN && op <= UNARY_ATAN)
        return OF_DOUBLES;
    return op >= UNARY_SINH && op <= UNARY_ATANH ? OF_LIBM : 1;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct unary_params *p = params;
    const int64_t work = p->op < UNARY_POW ? p->n / 4 : atc_mul(p->n, element_work(p->op));
    return (struct kernel_cost){.items = (p->n + UNARY_CHUNK - 1) / UNARY_CHUNK, .work = work};
}

DEFINE_FAMILY(unary, UNARY_FIELDS, .check = check, .cost = cost, .inplace = 1);

bool unary_in_vectors(const struct task_view *task)
{
    const struct unary_params *p = task->params;
    if (p->op == UNARY_POW)
        return p->alpha == 2 || p->alpha == 3;
    return p->op <= UNARY_LAST_VECTOR;
}

bool unary_by_doubles(const struct task_view *task)
{
    const struct unary_params *p = task->params;
    return p->op == UNARY_POW || (p->op >= UNARY_SIN && p->op <= UNARY_ATAN);
}
