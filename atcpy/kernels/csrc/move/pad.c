/* The pad family: its checker; an item is some rows. */
#include "move/pad.h"
#include "core/index.h"

DESCRIBE_PARAMS(pad, PAD_FIELDS)

const char *const pad_names[] = {"constant", "edge", "reflect", "wrap", NULL};

static int64_t rows_of(const struct pad_params *p)
{
    int64_t rows = 1;
    for (int64_t i = 0; i + 1 < p->rank; i++)
        rows = p->dims[i] == 0 ? 0 : atc_mul(rows, p->dims[i]);
    return rows;
}

static const char *check(const struct task_view *task)
{
    const struct pad_params *p = task->params;
    if (task->n_src < 1 || task->n_src > PAD_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (p->rank < 1 || p->rank > ATC_MAX_RANK || !atc_sizes_ok(p->dims, (int)p->rank, 0) ||
        !atc_sizes_ok(p->sizes, (int)p->rank, p->mode == PAD_CONSTANT ? 0 : 1) ||
        !atc_sizes_ok(p->x_strides, (int)p->rank, 0) || !atc_sizes_ok(p->before, (int)p->rank, 0) ||
        !atc_sizes_ok(&p->x_offset, 1, 0))
        return "rank or a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    int64_t last = p->x_offset;
    bool is_empty = false;
    for (int64_t i = 0; i < p->rank; i++) {
        is_empty |= p->sizes[i] == 0;
        last = atc_add(last, p->sizes[i] == 0 ? 0 : atc_mul(p->sizes[i] - 1, p->x_strides[i]));
    }
    const int64_t elements = atc_mul(rows_of(p), p->dims[p->rank - 1]);
    if (!atc_holds(task->src + PAD_X, DTYPE_ANY, is_empty ? 0 : atc_add(last, 1), p->item) ||
        !atc_holds(task->dst, DTYPE_ANY, elements, p->item) ||
        (task->n_src > PAD_VALUE && task->src[PAD_VALUE].region != REGION_NONE &&
         !atc_holds(task->src + PAD_VALUE, DTYPE_ANY, 1, p->item)))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct pad_params *p = params;
    return p->dims[p->rank - 1] == 0 ? 0 : ceil_div(rows_of(p), pad_rows_per_item(p));
}

static int64_t work(const void *params)
{
    const struct pad_params *p = params;
    return atc_mul(rows_of(p), atc_add(atc_mul(p->dims[p->rank - 1], 3), p->rank));
}

const struct kernel_family family_pad = {
    .name = "pad",
    .fields = pad_fields,
    .check = check,
    .items = items,
    .work = work,
};
