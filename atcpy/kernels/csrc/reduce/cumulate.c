/* The cumulate family: its checker; an item is some columns. */
#include "reduce/cumulate.h"

DESCRIBE_PARAMS(cumulate, CUMULATE_FIELDS)

const char *const cumulate_names[] = {"sum", "prod", NULL};

static const char *check(const struct task_view *task)
{
    const struct cumulate_params *p = task->params;
    const int64_t sizes[] = {p->outer, p->n, p->inner};
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 3, 0))
        return "a size is out of range";
    if ((p->exclusive != 0 && p->exclusive != 1) || (p->reverse != 0 && p->reverse != 1))
        return "exclusive or reverse is neither 0 nor 1";
    const int dtype = task->src->dtype;
    if (p->dtype != dtype || task->dst->dtype != dtype || !atc_is_number(dtype) ||
        dtype == DTYPE_BOOL)
        return "elements are not numbers of one type";
    const int64_t elements = atc_mul(atc_mul(p->outer, p->inner), p->n);
    if (!atc_holds(task->src, DTYPE_ANY, elements, atc_item_bytes(dtype)) ||
        !atc_holds(task->dst, DTYPE_ANY, elements, atc_item_bytes(dtype)))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct cumulate_params *p = params;
    return p->n == 0 ? 0 : p->outer * ceil_div(p->inner, CUMULATE_CHUNK);
}

static int64_t work(const void *params)
{
    const struct cumulate_params *p = params;
    return atc_mul(atc_mul(p->outer, p->inner), p->n);
}

const struct kernel_family family_cumulate = {
    .name = "cumulate",
    .fields = cumulate_fields,
    .check = check,
    .items = items,
    .work = work,
};
