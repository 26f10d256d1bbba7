/* The elements family: its checker and its lanes. */
#include "move/elements.h"
#include "core/index.h"

DESCRIBE_PARAMS(elements, ELEMENTS_FIELDS)

const char *const elements_names[] = {COMBINE_NAMES, "gather", NULL};

static int64_t lanes_of(const struct elements_params *p)
{
    int64_t lanes = 1;
    for (int64_t i = 0; i < p->rank; i++)
        lanes = p->dims[i] == 0 ? 0 : atc_mul(lanes, p->dims[i]);
    return lanes;
}

/* Elements that the lanes reach, of which each has n, `step` apart. */
static int64_t reach(const struct elements_params *p, const int64_t *strides, int64_t n,
                     int64_t step)
{
    int64_t last = atc_mul(n - 1, step);
    for (int64_t i = 0; i < p->rank; i++)
        last = atc_add(last, atc_mul(p->dims[i] - 1, strides[i]));
    return atc_add(last, 1);
}

static const char *check(const struct task_view *task)
{
    const struct elements_params *p = task->params;
    const int64_t sizes[] = {p->count, p->index_step, p->size, p->data_step};
    if (task->n_src != ELEMENTS_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (p->rank < 0 || p->rank > ATC_MAX_RANK || !atc_sizes_ok(p->dims, (int)p->rank, 0) ||
        !atc_sizes_ok(p->index_strides, (int)p->rank, 0) ||
        !atc_sizes_ok(p->data_strides, (int)p->rank, 0) || !atc_sizes_ok(sizes, 4, 0))
        return "a size is out of range";
    const struct atc_slot *x = task->src + ELEMENTS_X, *indices = task->src + ELEMENTS_INDICES;
    if (!atc_is_item(p->item) || !atc_is_index(indices, p->index_item))
        return "items or indices are of an unknown size";
    if (p->kind != ELEMENTS_GATHER && !combine_ok(p->kind, p->dtype, p->item, x, task->dst))
        return "updates of this type cannot be combined";
    const int64_t lanes = lanes_of(p);
    if (lanes == 0 || p->count == 0)
        return NULL;
    const int64_t shown = reach(p, p->index_strides, p->count, p->index_step);
    const int64_t held = p->size == 0 ? 0 : reach(p, p->data_strides, p->size, p->data_step);
    const bool gathers = p->kind == ELEMENTS_GATHER;
    /* That many places are told apart: lanes that overlap would make more work than they hold. */
    if (atc_mul(lanes, p->count) > shown)
        return "lanes overlap";
    if (!atc_holds(indices, DTYPE_ANY, shown, p->index_item) ||
        !atc_holds(x, DTYPE_ANY, gathers ? held : shown, p->item) ||
        !atc_holds(task->dst, DTYPE_ANY, gathers ? shown : held, p->item))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct elements_params *p = params;
    return p->count == 0 ? 0 : ceil_div(lanes_of(p), elements_lanes_per_item(p));
}

static int64_t work(const void *params)
{
    const struct elements_params *p = params;
    return atc_mul(lanes_of(p), atc_mul(p->count, 2));
}

const struct kernel_family family_elements = {
    .name = "elements",
    .fields = elements_fields,
    .check = check,
    .items = items,
    .work = work,
};
