/* The gather family: its checker and its items. */
#include "move/gather.h"
#include "core/index.h"

DESCRIBE_PARAMS(gather, GATHER_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct gather_params *p = task->params;
    const int64_t sizes[] = {p->outer, p->index_stride, p->count, p->inner};
    if (task->n_src != GATHER_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 4, 0) || p->depth < 1 || p->depth > ATC_MAX_RANK ||
        !atc_sizes_ok(p->dims, (int)p->depth, 0))
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    if (!atc_is_index(task->src + GATHER_INDICES, p->index_item))
        return "indices are neither int32 nor int64";
    const int64_t indices = atc_mul(p->count, p->depth);
    if (p->index_stride != 0 && p->index_stride != indices)
        return "index_stride fits neither way";
    if (p->outer == 0 || p->count == 0 || p->inner == 0)
        return NULL;
    int64_t data = atc_mul(p->outer, p->inner);
    for (int64_t i = 0; i < p->depth; i++)
        data = atc_mul(data, p->dims[i]);
    if (!atc_holds(task->src + GATHER_DATA, DTYPE_ANY, data, p->item) ||
        !atc_holds(task->src + GATHER_INDICES, DTYPE_ANY,
                   p->index_stride == 0 ? indices : atc_mul(indices, p->outer), p->index_item) ||
        !atc_holds(task->dst, DTYPE_ANY, atc_mul(atc_mul(p->outer, p->count), p->inner), p->item))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct gather_params *p = params;
    const int64_t each = gather_rows_per_item(p);
    return p->inner == 0 ? 0 : (atc_mul(p->outer, p->count) + each - 1) / each;
}

static int64_t work(const void *params)
{
    const struct gather_params *p = params;
    const int64_t rows = atc_mul(p->outer, p->count);
    return atc_add(atc_mul(rows, p->depth), atc_mul(rows, atc_mul(p->inner, p->item)) / 8);
}

const struct kernel_family family_gather = {
    .name = "gather",
    .fields = gather_fields,
    .check = check,
    .items = items,
    .work = work,
};
