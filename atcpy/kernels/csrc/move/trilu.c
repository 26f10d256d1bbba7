/* The trilu family: its checker and its cut into rows. */
#include "move/trilu.h"

DESCRIBE_PARAMS(trilu, TRILU_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct trilu_params *p = task->params;
    const int64_t sizes[] = {p->matrices, p->rows, p->cols};
    if (task->n_src < 1 || task->n_src > TRILU_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 3, 0))
        return "a size is out of range";
    if (p->upper != 0 && p->upper != 1)
        return "upper is neither 0 nor 1";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8 && p->item != 16)
        return "items are of an unknown size";
    const int64_t elements = atc_mul(atc_mul(p->matrices, p->rows), p->cols);
    if (!atc_holds(task->src + TRILU_X, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task->dst, DTYPE_ANY, elements, p->item) ||
        (task->n_src > TRILU_K && !atc_holds(task->src + TRILU_K, DTYPE_I64, 1, 8)))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct trilu_params *p = params;
    return p->cols == 0 ? 0 : ceil_div(p->matrices * p->rows, trilu_rows_per_item(p));
}

static int64_t work(const void *params)
{
    const struct trilu_params *p = params;
    return atc_mul(atc_mul(p->matrices, p->rows), atc_mul(p->cols, p->item)) / 8;
}

const struct kernel_family family_trilu = {
    .name = "trilu",
    .fields = trilu_fields,
    .check = check,
    .items = items,
    .work = work,
    .inplace = 1u << TRILU_X,
};
