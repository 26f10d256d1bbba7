/* The compress family: its checker. The work is one item: each slice's place depends on all before.
 */
#include "select/compress.h"
#include "core/index.h"

DESCRIBE_PARAMS(compress, COMPRESS_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct compress_params *p = task->params;
    const int64_t sizes[] = {p->outer, p->n, p->inner, p->conditions};
    if (task->n_src != COMPRESS_OPERANDS || task->n_dst != COMPRESS_RESULTS)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 4, 0))
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    const int64_t elements = atc_mul(atc_mul(p->outer, p->n), p->inner);
    if (!atc_holds(task->src + COMPRESS_X, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task->src + COMPRESS_CONDITION, DTYPE_BOOL, p->conditions, 1) ||
        !atc_holds(task->dst + COMPRESS_Y, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task->dst + COMPRESS_COUNT, DTYPE_I64, 1, 8))
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
    const struct compress_params *p = params;
    const int64_t looked_at = p->inner == 0 ? 0 : atc_mul(p->outer, p->conditions);
    return atc_add(atc_add(p->conditions, looked_at),
                   atc_mul(atc_mul(p->outer, p->n), atc_mul(p->inner, p->item)) / 8);
}

const struct kernel_family family_compress = {
    .name = "compress",
    .fields = compress_fields,
    .check = check,
    .items = items,
    .work = work,
};
