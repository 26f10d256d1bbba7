/* The byte_table family: its checker, how its work is dealt, and its scalar row. */
#include "quant/byte_table.h"

static const char *check(const struct task_view *task)
{
    const struct byte_table_params *p = task->params;
    if (task->n_src != 2 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n))
        return "a size is out of range";
    if (!atc_holds(task, task->src, DTYPE_ANY, p->n, 1) ||
        !atc_holds(task, task->src + 1, DTYPE_ANY, 256, 1) ||
        !atc_holds(task, task->dst, DTYPE_ANY, p->n, 1))
        return "an operand is too small";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct byte_table_params *p = params;
    return (struct kernel_cost){.items = ceil_div(p->n, BYTE_TABLE_CHUNK), .work = p->n};
}

DEFINE_FAMILY(byte_table, BYTE_TABLE_FIELDS, .check = check, .cost = cost, .inplace = 1);

void byte_table_any_scalar(const struct kernel_args *args)
{
    const struct byte_table_params *p = args->params;
    const uint8_t *x = args->src[0], *table = args->src[1];
    uint8_t *y = args->dst[0];
    const int64_t end = min_i64(args->end * BYTE_TABLE_CHUNK, p->n);
    for (int64_t i = args->begin * BYTE_TABLE_CHUNK; i < end; i++)
        y[i] = table[x[i]];
}
