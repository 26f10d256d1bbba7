/* The onehot family: its checker; an item is one place of `outer`. */
#include "select/onehot.h"
#include "core/index.h"

DESCRIBE_PARAMS(onehot, ONEHOT_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct onehot_params *p = task->params;
    const int64_t sizes[] = {p->outer, p->depth, p->inner};
    if (task->n_src != ONEHOT_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 3, 0))
        return "a size is out of range";
    const struct atc_slot *indices = task->src + ONEHOT_INDICES;
    if (!atc_is_item(p->item) || p->dtype != indices->dtype || !atc_is_number(indices->dtype))
        return "items or indices are of an unknown type";
    const int64_t lanes = atc_mul(p->outer, p->inner);
    if (!atc_holds(indices, DTYPE_ANY, lanes, atc_item_bytes(indices->dtype)) ||
        !atc_holds(task->src + ONEHOT_VALUES, DTYPE_ANY, 2, p->item) ||
        !atc_holds(task->dst, DTYPE_ANY, atc_mul(lanes, p->depth), p->item))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct onehot_params *p = params;
    return p->depth == 0 || p->inner == 0 ? 0 : p->outer;
}

static int64_t work(const void *params)
{
    const struct onehot_params *p = params;
    return atc_mul(atc_mul(p->outer, p->inner), atc_add(p->depth, 4));
}

const struct kernel_family family_onehot = {
    .name = "onehot",
    .fields = onehot_fields,
    .check = check,
    .items = items,
    .work = work,
};
