/* The random family: its checker and its cut into pairs of numbers. */
#include "random/random.h"

const char *const random_kinds[] = {"uniform", "normal", NULL};

static const char *check(const struct task_view *task)
{
    const struct random_params *p = task->params;
    if (task->n_src != 0 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n))
        return "a size is out of range";
    if (p->seeded != 0 && p->seeded != 1)
        return "seeded is neither 0 nor 1";
    const int dtype = task->dst->dtype;
    if ((dtype != DTYPE_F32 && dtype != DTYPE_F64) ||
        !atc_holds(task, task->dst, DTYPE_ANY, p->n, atc_item_bytes(dtype)))
        return "the result is too small or of a wrong type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct random_params *p = params;
    return (struct kernel_cost){.items = ceil_div(p->n, 2 * PAIRS), .work = atc_mul(p->n, 32)};
}

DEFINE_FAMILY(random, RANDOM_FIELDS, .check = check, .cost = cost, .draws = true);
