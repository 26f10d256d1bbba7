/* The classify family: its checker and how its work is dealt. */
#include "elementwise/classify.h"

static const char *check(const struct task_view *task)
{
    const struct classify_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n))
        return "a size is out of range";
    if (p->item < 1 || p->item > 8 || atc_item_bytes(task->src[0].dtype) != p->item)
        return "elements are not of the size stated";
    if (!atc_holds(task, task->src, DTYPE_ANY, p->n, p->item) ||
        !atc_holds(task, task->dst, DTYPE_BOOL, p->n, 1))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct classify_params *p = params;
    return (struct kernel_cost){.items = ceil_div(p->n, CLASSIFY_CHUNK), .work = p->n / 4};
}

DEFINE_FAMILY(classify, CLASSIFY_FIELDS, .check = check, .cost = cost);
