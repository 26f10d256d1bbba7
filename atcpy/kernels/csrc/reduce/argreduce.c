/* The argreduce family: its checker and its cut into runs of neighbouring results. */
#include "reduce/argreduce.h"

const char *const argreduce_kinds[] = {"max", "min", NULL};

static const char *check(const struct task_view *task)
{
    const struct argreduce_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->inner) || !ATC_SIZES_OK(1, p->n))
        return "a size is out of range";
    if (p->last != 0 && p->last != 1)
        return "last is neither 0 nor 1";
    const int64_t results = atc_mul(p->outer, p->inner);
    const int64_t item = atc_item_bytes(task->src[0].dtype);
    if (item == 0 || !atc_holds(task, task->src, DTYPE_ANY, atc_mul(results, p->n), item) ||
        !atc_holds(task, task->dst, DTYPE_I64, results, 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct argreduce_params *p = params;
    return (struct kernel_cost){.items = p->outer * ceil_div(p->inner, ARG_COLUMNS),
                                .work = atc_mul(p->outer * p->inner, p->n)};
}

/* Positions fit into the 32 bits of a lane. */
bool argreduce_in_vectors(const struct task_view *task)
{
    const struct argreduce_params *p = task->params;
    return p->n <= INT32_MAX;
}

DEFINE_FAMILY(argreduce, ARGREDUCE_FIELDS, .check = check, .cost = cost);
