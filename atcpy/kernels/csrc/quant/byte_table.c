/* byte_table: y = table[x]: any function of a byte.
 *
 *     x      n bytes, signed or not
 *     table  256 bytes; that of x lies at the number that x's bits are, read as unsigned
 *     y      n bytes; may be x
 */
#include "core/kernel.h"

#define BYTE_TABLE_FIELDS(I64, I64S, F64, ENUM) I64(n)
DECLARE_PARAMS(byte_table, BYTE_TABLE_FIELDS)

enum { BYTE_TABLE_CHUNK = 1 << 14 }; /* elements of a work item */

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
