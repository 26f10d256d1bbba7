/* The topk family: its checker; an item is one lane. */
#include "select/topk.h"
#include "select/ranked.h"

DESCRIBE_PARAMS(topk, TOPK_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct topk_params *p = task->params;
    const int64_t sizes[] = {p->outer, p->n, p->inner, p->k};
    if (task->n_src != 1 || task->n_dst != TOPK_RESULTS)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 4, 0) || p->k > p->n)
        return "a size is out of range";
    if (p->largest != 0 && p->largest != 1)
        return "largest is neither 0 nor 1";
    if (p->dtype != task->src->dtype || !atc_is_number(task->src->dtype) ||
        task->dst[TOPK_VALUES].dtype != task->src->dtype)
        return "elements of this type have no order";
    const int64_t lanes = atc_mul(p->outer, p->inner), item = atc_item_bytes(task->src->dtype);
    if (!atc_holds(task->src, DTYPE_ANY, atc_mul(lanes, p->n), item) ||
        !atc_holds(task->dst + TOPK_VALUES, DTYPE_ANY, atc_mul(lanes, p->k), item) ||
        !atc_holds(task->dst + TOPK_PLACES, DTYPE_I64, atc_mul(lanes, p->k), 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct topk_params *p = params;
    return p->k == 0 ? 0 : p->outer * p->inner;
}

static int64_t log2_above(int64_t n)
{
    int64_t log = 1;
    while (n >> log != 0)
        log++;
    return log;
}

static int64_t work(const void *params)
{
    const struct topk_params *p = params;
    if (p->k == 0)
        return 0;
    return atc_mul(atc_mul(p->outer, p->inner), atc_mul(p->n, 2 + log2_above(p->k)));
}

static int64_t scratch(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct topk_params *p = params;
    if (p->k == 0 || p->outer == 0 || p->inner == 0)
        return 0;
    return atc_add(atc_mul(p->k, sizeof(struct ranked)), atc_mul(p->n, sizeof(uint64_t)));
}

const struct kernel_family family_topk = {
    .name = "topk",
    .fields = topk_fields,
    .check = check,
    .items = items,
    .work = work,
    .scratch = scratch,
};
