/* The quant_range family: its checker. One item: the scale is one for all. */
#include "quant/quant_range.h"

static int64_t elements(const struct quant_range_params *p)
{
    return atc_mul(atc_mul(p->planes, p->c1), atc_mul(p->pixels, p->c0));
}

static const char *check(const struct task_view *task)
{
    const struct quant_range_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != RANGE_RESULTS)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->planes, p->c1, p->pixels, p->c0) || p->c_last < 0 ||
        p->c_last > p->c0 || atc_mul(p->pixels, p->c0) >= ATC_TOO_BIG)
        return "a size is out of range";
    if (!atc_holds(task, task->src, DTYPE_F32, elements(p), 4) ||
        !atc_holds(task, task->dst + RANGE_SCALE, DTYPE_F32, 1, 4) ||
        !atc_holds(task, task->dst + RANGE_ZERO, DTYPE_U8, 1, 1))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct quant_range_params *p = params;
    const int64_t blocks = atc_mul(p->planes, p->c1); /* each is a run, though it be empty */
    return (struct kernel_cost){.items = 1, .work = atc_add(elements(p) / 4, blocks)};
}

DEFINE_FAMILY(quant_range, QUANT_RANGE_FIELDS, .check = check, .cost = cost);
