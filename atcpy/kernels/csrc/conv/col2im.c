/* The col2im family: its checker and its cut into planes. */
#include "conv/col2im.h"

static const char *check(const struct task_view *task)
{
    const struct col2im_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->planes) || !atc_sizes_ok(p->image, COL2IM_DIMS, 1) ||
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
    const int64_t columns = atc_mul(atc_volume(p->kernel), atc_volume(p->cols));
    if (!atc_holds(task, task->src, dtype, atc_mul(p->planes, columns), item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(p->planes, atc_volume(p->image)), item))
        return "an operand is too small or of another type";
    return NULL;
}

/* An item is a plane. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct col2im_params *p = params;
    const int64_t columns = atc_mul(atc_volume(p->kernel), atc_volume(p->cols));
    return (struct kernel_cost){.items = p->planes,
                                .work = atc_mul(p->planes, atc_add(columns, atc_volume(p->image)))};
}

DEFINE_FAMILY(col2im, COL2IM_FIELDS, .check = check, .cost = cost);

/* Planes that caches hold, of blocks side by side that cover the image but for padding: sums of all
 * taps are kept in registers, and few lanes are none of a tap's.
 */
bool col2im_is_small(const struct task_view *task)
{
    const struct col2im_params *p = task->params;
    enum { MAX_DILATION = 4, MAX_PLANE = 1 << 16 }; /* elements of a plane need not be pieces */
    for (int i = 0; i < COL2IM_DIMS; i++)
        if (p->stride[i] != 1)
            return false;
    return p->kernel[2] <= COL2IM_ROW_TAPS && p->dilation[2] <= MAX_DILATION &&
           p->image[2] <= p->cols[2] + (p->kernel[2] - 1) * p->dilation[2] &&
           atc_volume(p->image) <= MAX_PLANE &&
           atc_mul(atc_volume(p->kernel), atc_volume(p->cols)) <= MAX_PLANE;
}
