/* The lrn family: its checker and its cut into channels. */
#include "norm/lrn.h"

static const char *check(const struct task_view *task)
{
    const struct lrn_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    const enum atc_dtype dtype = task->src->dtype;
    const int64_t item = atc_item_bytes((int)dtype);
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "x is neither float32 nor float64";
    if (!ATC_SIZES_OK(1, p->n, p->c, p->pixels, p->size))
        return "a size is out of range";
    const int64_t elements = atc_mul(atc_mul(p->n, p->c), p->pixels);
    if (!atc_holds(task, task->src, dtype, elements, item) ||
        !atc_holds(task, task->dst, dtype, elements, item))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct lrn_params *p = params;
    return (struct kernel_cost){.items = p->n * p->c,
                                .work = atc_mul(p->n * p->c * p->pixels, min_i64(p->size, p->c))};
}

/* The powers that square roots make: those of the nets that have this op. */
bool lrn_fits_vectors(const struct task_view *task);
bool lrn_fits_vectors(const struct task_view *task)
{
    const struct lrn_params *p = task->params;
    return p->beta == 0.5 || p->beta == 0.75 || p->beta == 1;
}

DEFINE_FAMILY(lrn, LRN_FIELDS, .check = check, .cost = cost);
