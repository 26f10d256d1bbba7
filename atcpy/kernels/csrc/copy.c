#include "copy.h"

#include <string.h>

enum { COPY_ITEM = 1 << 16 };

DESCRIBE_PARAMS(copy, COPY_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct copy_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(&p->bytes, 1, 0) || !atc_holds(task->src, DTYPE_ANY, p->bytes, 1) ||
        !atc_holds(task->dst, DTYPE_ANY, p->bytes, 1))
        return "an operand is too small";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct copy_params *p = params;
    return (p->bytes + COPY_ITEM - 1) / COPY_ITEM;
}

static int64_t work(const void *params)
{
    const struct copy_params *p = params;
    return p->bytes / 16;
}

const struct kernel_family family_copy = {
    .name = "copy", .fields = copy_fields, .check = check, .items = items, .work = work};

void copy_any_scalar(const struct kernel_args *args)
{
    const struct copy_params *p = args->params;
    const int64_t begin = args->begin * COPY_ITEM;
    const int64_t end = args->end * COPY_ITEM < p->bytes ? args->end * COPY_ITEM : p->bytes;
    if (end > begin)
        memcpy((uint8_t *)args->dst[0] + begin, (const uint8_t *)args->src[0] + begin,
               (size_t)(end - begin));
}
