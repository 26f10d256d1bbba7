/* The range family: its checker and its cut. */
#include "move/range.h"

static const char *check(const struct task_view *task)
{
    const struct range_params *p = task->params;
    if (task->n_src != RANGE_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n))
        return "a size is out of range";
    const int dtype = task->dst->dtype;
    if (p->dtype != dtype)
        return "the result is of another type than the record says";
    if (dtype != DTYPE_I16 && dtype != DTYPE_I32 && dtype != DTYPE_I64 && dtype != DTYPE_F32 &&
        dtype != DTYPE_F64)
        return "the result is not of numbers that are counted";
    const int64_t item = atc_item_bytes(dtype);
    if (!atc_holds(task, task->src + RANGE_START, dtype, 1, item) ||
        !atc_holds(task, task->src + RANGE_DELTA, dtype, 1, item) ||
        !atc_holds(task, task->dst, dtype, p->n, item))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct range_params *p = params;
    return (struct kernel_cost){.items = ceil_div(p->n, RANGE_CHUNK), .work = p->n};
}

DEFINE_FAMILY(range, RANGE_FIELDS, .check = check, .cost = cost);
