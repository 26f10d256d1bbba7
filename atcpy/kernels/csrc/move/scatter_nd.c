/* The scatter_nd family: its checker and its items. */
#include "move/scatter_nd.h"
#include "core/index.h"

DESCRIBE_PARAMS(scatter_nd, SCATTER_ND_FIELDS)

const char *const scatter_nd_names[] = {COMBINE_NAMES, NULL};

static const char *check(const struct task_view *task)
{
    const struct scatter_nd_params *p = task->params;
    const int64_t sizes[] = {p->count, p->inner};
    if (task->n_src != SCATTER_ND_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 2, 0) || p->depth < 0 || p->depth > ATC_MAX_RANK ||
        !atc_sizes_ok(p->dims, (int)p->depth, 0))
        return "a size is out of range";
    const struct atc_slot *x = task->src + SCATTER_ND_UPDATES;
    const struct atc_slot *indices = task->src + SCATTER_ND_INDICES;
    if (!atc_is_item(p->item) || !atc_is_index(indices, p->index_item))
        return "items or indices are of an unknown size";
    if (!combine_ok(p->kind, p->dtype, p->item, x, task->dst))
        return "updates of this type cannot be combined";
    if (p->count == 0 || p->inner == 0)
        return NULL;
    int64_t held = p->inner;
    for (int64_t i = 0; i < p->depth; i++)
        held = p->dims[i] == 0 ? 0 : atc_mul(held, p->dims[i]);
    if (!atc_holds(indices, DTYPE_ANY, atc_mul(p->count, p->depth), p->index_item) ||
        !atc_holds(x, DTYPE_ANY, atc_mul(p->count, p->inner), p->item) ||
        !atc_holds(task->dst, DTYPE_ANY, held, p->item))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct scatter_nd_params *p = params;
    return p->count == 0 ? 0 : ceil_div(p->inner, SCATTER_ND_CHUNK);
}

static int64_t work(const void *params)
{
    const struct scatter_nd_params *p = params;
    const int64_t indices = atc_mul(p->count, p->depth + 1);
    return atc_add(atc_mul(indices, ceil_div(p->inner, SCATTER_ND_CHUNK)),
                   atc_mul(p->count, atc_mul(p->inner, p->item)) / 8);
}

const struct kernel_family family_scatter_nd = {
    .name = "scatter_nd",
    .fields = scatter_nd_fields,
    .check = check,
    .items = items,
    .work = work,
};
