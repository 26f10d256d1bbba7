/* The rotary family: its checker and its cut into heads. */
#include "attention/rotary.h"

static int64_t heads_of(const struct rotary_params *p)
{
    return atc_mul(atc_mul(p->batch, p->heads), p->rows);
}

static const char *check(const struct task_view *task)
{
    const struct rotary_params *p = task->params;
    if (task->n_src != ROTARY_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->batch, p->heads, p->rows, p->head) || !ATC_SIZES_OK(0, p->half) ||
        p->half > p->head / 2)
        return "a size is out of range";
    if ((p->interleaved != 0 && p->interleaved != 1) || (p->joined != 0 && p->joined != 1))
        return "a flag is neither 0 nor 1";
    const int64_t elements = atc_mul(heads_of(p), p->head);
    const int64_t angles = atc_mul(atc_mul(p->batch, p->rows), p->half);
    if (!atc_holds(task, task->src + ROTARY_X, DTYPE_F32, elements, 4) ||
        !atc_holds(task, task->src + ROTARY_COS, DTYPE_F32, angles, 4) ||
        !atc_holds(task, task->src + ROTARY_SIN, DTYPE_F32, angles, 4) ||
        !atc_holds(task, task->dst, DTYPE_F32, elements, 4))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct rotary_params *p = params;
    return (struct kernel_cost){.items = ceil_div(heads_of(p), rotary_heads_per_item(p)),
                                .work = atc_mul(heads_of(p), atc_mul(p->head, 3))};
}

DEFINE_FAMILY(rotary, ROTARY_FIELDS, .check = check, .cost = cost, .inplace = 1u << ROTARY_X);
