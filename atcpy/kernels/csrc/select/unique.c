/* The unique family: its checker. The work is one item, a sort. */
#include "select/unique.h"

DESCRIBE_PARAMS(unique, UNIQUE_FIELDS)

static int64_t element_count(const struct unique_params *p)
{
    return atc_mul(atc_mul(p->outer, p->n), p->inner);
}

static const char *check(const struct task_view *task)
{
    const struct unique_params *p = task->params;
    const int64_t sizes[] = {p->outer, p->n, p->inner};
    if (p->results < 1 || p->results > UNIQUE_RESULTS || task->n_src != 1 ||
        task->n_dst != p->results + 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 3, 0))
        return "a size is out of range";
    if (p->sorted != 0 && p->sorted != 1)
        return "sorted is neither 0 nor 1";
    if (p->dtype != task->src->dtype || !atc_is_number(task->src->dtype) ||
        task->dst[UNIQUE_Y].dtype != task->src->dtype)
        return "elements of this type have no order";
    const int64_t item = atc_item_bytes(task->src->dtype);
    for (int64_t i = 1; i <= p->results; i++)
        if (!atc_holds(task->dst + i, DTYPE_I64, i == p->results ? 1 : p->n, 8))
            return "an operand is too small or of a wrong type";
    if (!atc_holds(task->src, DTYPE_ANY, element_count(p), item) ||
        !atc_holds(task->dst + UNIQUE_Y, DTYPE_ANY, element_count(p), item))
        return "an operand is too small";
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
    const struct unique_params *p = params;
    int64_t rounds = 8;
    for (int64_t width = 1; width < p->n; width *= 2)
        rounds++;
    return atc_mul(rounds, atc_add(p->n, element_count(p)));
}

static int64_t scratch(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct unique_params *p = params;
    return atc_mul(atc_add(atc_mul(p->n, 4), element_count(p)), sizeof(int64_t));
}

const struct kernel_family family_unique = {
    .name = "unique",
    .fields = unique_fields,
    .check = check,
    .items = items,
    .work = work,
    .scratch = scratch,
};
