/* The topk family: its checker and its cut into lanes. */
#include "select/topk.h"
#include "select/ranked.h"

static const char *check(const struct task_view *task)
{
    const struct topk_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != TOPK_RESULTS)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->n, p->inner, p->k) || p->k > p->n)
        return "a size is out of range";
    if (p->largest != 0 && p->largest != 1)
        return "largest is neither 0 nor 1";
    if (p->dtype != task->src->dtype || !atc_is_number(task->src->dtype) ||
        task->dst[TOPK_VALUES].dtype != task->src->dtype)
        return "elements of this type have no order";
    const int64_t lanes = atc_mul(p->outer, p->inner), item = atc_item_bytes(task->src->dtype);
    if (!atc_holds(task, task->src, DTYPE_ANY, atc_mul(lanes, p->n), item) ||
        !atc_holds(task, task->dst + TOPK_VALUES, DTYPE_ANY, atc_mul(lanes, p->k), item) ||
        !atc_holds(task, task->dst + TOPK_INDICES, DTYPE_I64, atc_mul(lanes, p->k), 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static int64_t log2_above(int64_t n)
{
    int64_t log = 1;
    while (n >> log != 0)
        log++;
    return log;
}

/* An item is one lane. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct topk_params *p = params;
    if (p->k == 0 || p->outer == 0 || p->inner == 0)
        return (struct kernel_cost){0};
    return (struct kernel_cost){
        .items = p->outer * p->inner,
        .work = atc_mul(atc_mul(p->outer, p->inner), atc_mul(p->n, 2 + log2_above(p->k))),
        .scratch =
            atc_add(atc_mul(topk_keys(p), sizeof(uint64_t)),
                    topk_sorts_all(p) ? atc_mul(p->n, 2 * sizeof(int64_t))
                                      : atc_add(atc_mul(p->k, sizeof(struct ranked)),
                                                atc_mul(p->n / TOPK_RUN, sizeof(uint64_t))))};
}

DEFINE_FAMILY(topk, TOPK_FIELDS, .check = check, .cost = cost);
