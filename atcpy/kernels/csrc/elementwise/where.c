/* The where family: its checker and how its work is dealt. */
#include "elementwise/where.h"

static const char *check(const struct task_view *task)
{
    const struct where_params *p = task->params;
    if (task->n_src != 3 || task->n_dst != 1)
        return "wrong number of operands";
    const struct broadcast b = where_walk(p);
    const char *reason = broadcast_check(task, &b);
    if (reason != NULL)
        return reason;
    const enum atc_dtype dtype = (enum atc_dtype)task->dst[0].dtype;
    if (p->item == 0 || atc_item_bytes((int)dtype) != p->item)
        return "elements are not of the size stated";
    if (!atc_holds(task, task->src, DTYPE_BOOL, broadcast_reach(&b, 0), 1) ||
        !atc_holds(task, task->src + 1, dtype, broadcast_reach(&b, 1), p->item) ||
        !atc_holds(task, task->src + 2, dtype, broadcast_reach(&b, 2), p->item) ||
        !atc_holds(task, task->dst, dtype, broadcast_elements(&b), p->item))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct broadcast b = where_walk(params);
    return (struct kernel_cost){.items = broadcast_items(&b), .work = broadcast_elements(&b) / 4};
}

DEFINE_FAMILY(where, WHERE_FIELDS, .check = check, .cost = cost, .inplace = 6);
