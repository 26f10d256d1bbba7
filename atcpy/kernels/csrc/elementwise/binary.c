/* The binary family: its checker and how its work is dealt. */
#include "elementwise/binary.h"

static const char *const binary_names[] = {
    "Add",       "Sub",        "Mul",       "Div",        "Max",         "Min",
    "PRelu",     "Equal",      "Less",      "Greater",    "LessOrEqual", "GreaterOrEqual",
    "Mod",       "FMod",       "And",       "Or",         "Xor",         "BitwiseAnd",
    "BitwiseOr", "BitwiseXor", "ShiftLeft", "ShiftRight", NULL};

static_assert(sizeof binary_names / sizeof binary_names[0] == BINARY_SHIFT_RIGHT + 2,
              "a name each");

/* Which ops a type has; each row relies on it. */
static bool has_op(int dtype, int64_t op)
{
    const bool is_bitwise = op >= BINARY_BITWISE_AND, is_logic = op >= BINARY_AND && !is_bitwise;
    if (dtype == DTYPE_BOOL)
        return is_logic || op == BINARY_EQUAL;
    if (dtype == DTYPE_F32 || dtype == DTYPE_F64)
        return !is_logic && !is_bitwise;
    return !is_logic;
}

static const char *check(const struct task_view *task)
{
    const struct binary_params *p = task->params;
    if (task->n_src != 2 || task->n_dst != 1)
        return "wrong number of operands";
    const struct broadcast b = binary_walk(p);
    const char *reason = broadcast_check(task, &b);
    if (reason != NULL)
        return reason;
    const enum atc_dtype dtype = (enum atc_dtype)task->src[0].dtype;
    const int64_t item = atc_item_bytes(dtype);
    if (item == 0 || !has_op(dtype, p->op))
        return "no such op on this type";
    for (int s = 0; s < 2; s++)
        if (!atc_holds(task, task->src + s, dtype, broadcast_reach(&b, s), item))
            return "an operand is too small or of another type";
    if (!atc_holds(task, task->dst, binary_compares(p->op) ? DTYPE_BOOL : dtype,
                   broadcast_elements(&b), binary_compares(p->op) ? 1 : item))
        return "the result is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct broadcast b = binary_walk(params);
    return (struct kernel_cost){.items = broadcast_items(&b), .work = broadcast_elements(&b) / 4};
}

DEFINE_FAMILY(binary, BINARY_FIELDS, .check = check, .cost = cost, .inplace = 3);

bool binary_in_vectors(const struct task_view *task)
{
    const struct binary_params *p = task->params;
    return p->op <= BINARY_LAST_VECTOR;
}
