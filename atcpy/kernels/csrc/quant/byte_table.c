/* The byte_table family: its checker and how its work is dealt. */
#include "quant/byte_table.h"

DESCRIBE_PARAMS(byte_table, BYTE_TABLE_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct byte_table_params *p = task->params;
    if (task->n_src != 2 || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(&p->n, 1, 0))
        return "a size is out of range";
    if (!atc_holds(task->src, DTYPE_ANY, p->n, 1) || !atc_holds(task->src + 1, DTYPE_ANY, 256, 1) ||
        !atc_holds(task->dst, DTYPE_ANY, p->n, 1))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct byte_table_params *p = params;
    return ceil_div(p->n, BYTE_TABLE_CHUNK);
}

static int64_t work(const void *params)
{
    const struct byte_table_params *p = params;
    return p->n;
}

const struct kernel_family family_byte_table = {
    .name = "byte_table",
    .fields = byte_table_fields,
    .check = check,
    .items = items,
    .work = work,
    .inplace = 1,
};
