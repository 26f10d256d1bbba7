/* The tensor_scatter family: its checker; an item is a group of a batch. */
#include "move/tensor_scatter.h"
#include "core/index.h"

DESCRIBE_PARAMS(tensor_scatter, TENSOR_SCATTER_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct tensor_scatter_params *p = task->params;
    const int64_t sizes[] = {p->batch, p->groups, p->count, p->size, p->inner};
    if (task->n_src < 1 || task->n_src > TENSOR_SCATTER_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 5, 0) || p->count > p->size)
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    if (p->circular != 0 && p->circular != 1)
        return "circular is neither 0 nor 1";
    const int64_t rows = atc_mul(atc_mul(p->batch, p->groups), p->inner);
    if (!atc_holds(task->src + TENSOR_SCATTER_UPDATE, DTYPE_ANY, atc_mul(rows, p->count),
                   p->item) ||
        !atc_holds(task->dst, DTYPE_ANY, atc_mul(rows, p->size), p->item) ||
        (task->n_src > TENSOR_SCATTER_BEGIN &&
         !atc_holds(task->src + TENSOR_SCATTER_BEGIN, DTYPE_I64, p->batch, 8)))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct tensor_scatter_params *p = params;
    return p->count == 0 || p->inner == 0 ? 0 : p->batch * p->groups;
}

static int64_t work(const void *params)
{
    const struct tensor_scatter_params *p = params;
    return atc_mul(atc_mul(p->batch, p->groups),
                   atc_mul(p->count, atc_mul(p->inner, p->item) / 8 + 1));
}

const struct kernel_family family_tensor_scatter = {
    .name = "tensor_scatter",
    .fields = tensor_scatter_fields,
    .check = check,
    .items = items,
    .work = work,
};
