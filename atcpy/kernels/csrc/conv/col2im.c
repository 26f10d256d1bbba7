/* The col2im family: its checker and its cut into planes. */
#include "conv/col2im.h"

DESCRIBE_PARAMS(col2im, COL2IM_FIELDS)

static int64_t volume(const int64_t *dims)
{
    return atc_mul(atc_mul(dims[0], dims[1]), dims[2]);
}

static const char *check(const struct task_view *task)
{
    const struct col2im_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(&p->planes, 1, 0) || !atc_sizes_ok(p->image, COL2IM_DIMS, 1) ||
        !atc_sizes_ok(p->kernel, COL2IM_DIMS, 1) || !atc_sizes_ok(p->cols, COL2IM_DIMS, 1) ||
        !atc_sizes_ok(p->stride, COL2IM_DIMS, 1) || !atc_sizes_ok(p->dilation, COL2IM_DIMS, 1) ||
        !atc_sizes_ok(p->pad, COL2IM_DIMS, 0))
        return "a size is out of range";
    for (int i = 0; i < COL2IM_DIMS; i++)
        if (atc_add(atc_mul(p->cols[i], p->stride[i]), atc_mul(p->kernel[i], p->dilation[i])) >=
            ATC_TOO_BIG)
            return "the blocks reach too far";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[0].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype);
    const int64_t columns = atc_mul(volume(p->kernel), volume(p->cols));
    if (!atc_holds(task->src, dtype, atc_mul(p->planes, columns), item) ||
        !atc_holds(task->dst, dtype, atc_mul(p->planes, volume(p->image)), item))
        return "an operand is too small or of another type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    return ((const struct col2im_params *)params)->planes;
}

static int64_t work(const void *params)
{
    const struct col2im_params *p = params;
    const int64_t columns = atc_mul(volume(p->kernel), volume(p->cols));
    return atc_mul(p->planes, atc_add(columns, volume(p->image)));
}

const struct kernel_family family_col2im = {
    .name = "col2im", .fields = col2im_fields, .check = check, .items = items, .work = work};
