/* The unpool family: its checker. The work is one item: places may repeat, and the last counts. */
#include "pooling/unpool.h"

DESCRIBE_PARAMS(unpool, UNPOOL_FIELDS)

static int64_t elements(const struct unpool_params *p, const int64_t *dims)
{
    return atc_mul(atc_mul(p->planes, dims[0]), atc_mul(dims[1], dims[2]));
}

static const char *check(const struct task_view *task)
{
    const struct unpool_params *p = task->params;
    if (task->n_src != UNPOOL_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(&p->planes, 1, 1) || !atc_sizes_ok(&p->n, 1, 0) ||
        !atc_sizes_ok(p->in, UNPOOL_DIMS, 1) || !atc_sizes_ok(p->out, UNPOOL_DIMS, 1))
        return "a size is out of range";
    for (int i = 0; i < UNPOOL_DIMS; i++)
        if (p->in[i] > p->out[i])
            return "the result is too small";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8)
        return "items are of an unknown size";
    if (elements(p, p->in) >= ATC_TOO_BIG ||
        !atc_holds(task->src + UNPOOL_X, DTYPE_ANY, p->n, p->item) ||
        !atc_holds(task->src + UNPOOL_INDICES, DTYPE_I64, p->n, 8) ||
        !atc_holds(task->dst, DTYPE_ANY, elements(p, p->out), p->item))
        return "an operand is too small or of a wrong type";
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
    const struct unpool_params *p = params;
    return atc_add(atc_mul(p->n, 8), atc_mul(elements(p, p->out), p->item) / 8);
}

const struct kernel_family family_unpool = {
    .name = "unpool", .fields = unpool_fields, .check = check, .items = items, .work = work};
