/* The nonzero family: its checker. The work is one item: each place depends on all before it. */
#include "select/nonzero.h"

DESCRIBE_PARAMS(nonzero, NONZERO_FIELDS)

static int64_t element_count(const struct nonzero_params *p)
{
    int64_t elements = 1;
    for (int64_t i = 0; i < p->rank; i++)
        elements = atc_mul(elements, p->dims[i]);
    return elements;
}

static const char *check(const struct task_view *task)
{
    const struct nonzero_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != NONZERO_RESULTS)
        return "wrong number of operands";
    if (p->rank < 0 || p->rank > ATC_MAX_RANK || !atc_sizes_ok(p->dims, (int)p->rank, 0))
        return "rank or a dim is out of range";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8)
        return "items are of an unknown size";
    if (p->is_float != 0 && p->is_float != 1)
        return "is_float is neither 0 nor 1";
    const int64_t elements = element_count(p);
    if (!atc_holds(task->src, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task->dst + NONZERO_Y, DTYPE_I64, atc_mul(elements, p->rank), 8) ||
        !atc_holds(task->dst + NONZERO_COUNT, DTYPE_I64, 1, 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)params;
    (void)cpu;
    return 1;
}

static int64_t work(const void *params)
{
    const struct nonzero_params *p = params;
    return atc_mul(element_count(p), p->rank + 1);
}

const struct kernel_family family_nonzero = {
    .name = "nonzero",
    .fields = nonzero_fields,
    .check = check,
    .items = items,
    .work = work,
};
