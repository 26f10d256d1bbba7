/* The batchnorm family: its checker and its cut into planes of one channel, or one block. */
#include "norm/batchnorm.h"

static const char *check(const struct task_view *task)
{
    const struct batchnorm_params *p = task->params;
    if (task->n_src != BN_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    const enum atc_dtype dtype = task->src[BN_X].dtype;
    const int64_t item = atc_item_bytes((int)dtype);
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "x is neither float32 nor float64";
    if (!ATC_SIZES_OK(1, p->n, p->c, p->pixels))
        return "a size is out of range";
    if (p->c0 != 1 && p->c0 != BATCHNORM_C0)
        return "c0 is neither 1 nor 16";
    const int64_t channels = ceil_div(p->c, p->c0) * p->c0;
    const int64_t elements = atc_mul(atc_mul(p->n, channels), p->pixels);
    if (!atc_holds(task, task->src + BN_X, dtype, elements, item) ||
        !atc_holds(task, task->dst, dtype, elements, item))
        return "an operand is too small or of another type";
    if ((task->src[BN_MEAN].region == REGION_NONE) != (task->src[BN_VAR].region == REGION_NONE))
        return "mean without var";
    for (int i = BN_SCALE; i < BN_OPERANDS; i++) {
        const bool optional = i == BN_MEAN || i == BN_VAR;
        if (!(optional && task->src[i].region == REGION_NONE) &&
            !atc_holds(task, task->src + i, dtype, p->c, item))
            return "a vector is too small or of another type";
    }
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct batchnorm_params *p = params;
    enum { PLANE_WORK = 32 }; /* of roots and quotients */
    const int64_t planes = p->n * ceil_div(p->c, p->c0);
    return (struct kernel_cost){
        .items = planes,
        .work = atc_add(atc_mul(p->n * p->c, p->pixels), atc_mul(planes, PLANE_WORK))};
}

DEFINE_FAMILY(batchnorm, BATCHNORM_FIELDS, .check = check, .cost = cost, .inplace = 1);
