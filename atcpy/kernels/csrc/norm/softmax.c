/* The softmax family: its checker and its cut into rows, or runs of neighbouring columns. */
#include "norm/softmax.h"

const char *const softmax_kinds[] = {"softmax", "log_softmax", NULL};

static const char *check(const struct task_view *task)
{
    const struct softmax_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->inner) || !ATC_SIZES_OK(1, p->n))
        return "a size is out of range";
    const int dtype = task->src[0].dtype;
    if (dtype != task->dst[0].dtype || (dtype != DTYPE_F32 && dtype != DTYPE_F64))
        return "operands are neither both float32 nor both float64";
    const int64_t elements = atc_mul(atc_mul(p->outer, p->inner), p->n);
    const int64_t item = atc_item_bytes(dtype);
    if (!atc_holds(task, task->src, DTYPE_ANY, elements, item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements, item))
        return "an operand is too small";
    return NULL;
}

/* An exponential costs about as much as four other operations. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct softmax_params *p = params;
    enum { ROW_WORK = 96, VECTOR = 16 }; /* of a maximum and a quotient */
    const int64_t rows = atc_mul(p->outer, ceil_div(p->inner, VECTOR));
    return (struct kernel_cost){
        .items = p->outer * ceil_div(p->inner, SOFTMAX_COLUMNS),
        .work = atc_add(atc_mul(p->outer * p->inner * p->n, 2), atc_mul(rows, ROW_WORK))};
}

DEFINE_FAMILY(softmax, SOFTMAX_FIELDS, .check = check, .cost = cost, .inplace = 1);
