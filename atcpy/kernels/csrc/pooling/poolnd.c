/* The poolnd family: its checker and its cut into rows of results. */
#include "pooling/poolnd.h"

const char *const poolnd_kinds[] = {"max", "avg", "lp", NULL};

static const char *check(const struct task_view *task)
{
    const struct poolnd_params *p = task->params;
    if (task->n_src != 1 || task->n_dst < 1 || task->n_dst > 2)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->planes) || !atc_sizes_ok(p->in, POOLND_DIMS, 1) ||
        !atc_sizes_ok(p->out, POOLND_DIMS, 1) || !atc_sizes_ok(p->kernel, POOLND_DIMS, 1) ||
        !atc_sizes_ok(p->stride, POOLND_DIMS, 1) || !atc_sizes_ok(p->dilation, POOLND_DIMS, 1) ||
        !atc_sizes_ok(p->pad_begin, POOLND_DIMS, 0) || !atc_sizes_ok(p->pad_end, POOLND_DIMS, 0))
        return "a size is out of range";
    if ((p->include_pad != 0 && p->include_pad != 1) ||
        (p->column_major != 0 && p->column_major != 1))
        return "a flag is neither 0 nor 1";
    if (p->kind == POOLND_LP && p->p < 1)
        return "p is below 1";
    for (int i = 0; i < POOLND_DIMS; i++)
        if (atc_add(atc_mul(p->out[i], p->stride[i]), atc_mul(p->kernel[i], p->dilation[i])) >=
            ATC_TOO_BIG)
            return "the windows reach too far";
    if (atc_volume(p->kernel) >= ATC_TOO_BIG)
        return "the windows are too large";

    const enum atc_dtype dtype = (enum atc_dtype)task->src[0].dtype;
    const bool is_float = dtype == DTYPE_F32 || dtype == DTYPE_F64;
    if (!is_float && (p->kind != POOLND_MAX || (dtype != DTYPE_I8 && dtype != DTYPE_U8)))
        return "operands are of an unknown type";
    if (task->n_dst > 1 && p->kind != POOLND_MAX)
        return "only the largest element lies somewhere";
    const int64_t item = atc_item_bytes(dtype), results = atc_mul(p->planes, atc_volume(p->out));
    if (!atc_holds(task, task->src, dtype, atc_mul(p->planes, atc_volume(p->in)), item) ||
        !atc_holds(task, task->dst, dtype, results, item) ||
        (task->n_dst > 1 && !atc_holds(task, task->dst + 1, DTYPE_I64, results, 8)))
        return "an operand is too small or of another type";
    return NULL;
}

/* Rows of windows are joined where there are no indices and no powers. */
bool poolnd_joins_rows(const struct task_view *task)
{
    const struct poolnd_params *p = task->params;
    return p->kind != POOLND_LP && task->n_dst == 1 &&
           pool_row_fits(atc_mul(p->kernel[0], p->kernel[1]), p->kernel[2], p->stride[2],
                         p->dilation[2]);
}

/* An item is a row of results: of one plane, one depth and one height. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct poolnd_params *p = params;
    const int64_t results = atc_mul(p->planes, atc_volume(p->out));
    return (struct kernel_cost){.items = p->planes * p->out[0] * p->out[1],
                                .work = atc_mul(results, atc_volume(p->kernel))};
}

DEFINE_FAMILY(poolnd, POOLND_FIELDS, .check = check, .cost = cost);
