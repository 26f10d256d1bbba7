/* The pool2d family: its checker and its cut into rows of results. */
#include "pooling/pool2d.h"

const char *const pool2d_kinds[] = {"max", "avg", NULL};

static const char *check(const struct task_view *task)
{
    const struct pool2d_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->h, p->w, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw, p->dh, p->dw) ||
        !ATC_SIZES_OK(0, p->planes, p->pt, p->pl, p->pb, p->pr))
        return "a size is out of range";
    if (p->c0 != 1 && p->c0 != POOL_C0)
        return "c0 is neither 1 nor 16";
    if (p->include_pad != 0 && p->include_pad != 1)
        return "include_pad is neither 0 nor 1";
    const int64_t reach_h = atc_add(atc_mul(p->oh, p->sh), atc_mul(p->kh, p->dh));
    const int64_t reach_w = atc_add(atc_mul(p->ow, p->sw), atc_mul(p->kw, p->dw));
    if (reach_h >= ATC_TOO_BIG || reach_w >= ATC_TOO_BIG || atc_mul(p->kh, p->kw) >= ATC_TOO_BIG)
        return "the windows reach too far";

    const int dtype = task->src[0].dtype;
    if (dtype != task->dst[0].dtype || atc_item_bytes(dtype) == 0)
        return "operands differ in type, or the type is unknown";
    if (p->kind == POOL_AVG && dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "a mean needs floats";
    const int64_t item = atc_item_bytes(dtype), lanes = atc_mul(p->planes, p->c0);
    if (!atc_holds(task, task->src, DTYPE_ANY, atc_mul(lanes, atc_mul(p->h, p->w)), item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, atc_mul(lanes, atc_mul(p->oh, p->ow)), item))
        return "an operand is too small";
    return NULL;
}

/* An item is a row of results. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct pool2d_params *p = params;
    return (struct kernel_cost){
        .items = atc_mul(p->planes, p->oh),
        .work = atc_mul(atc_mul(p->planes * p->c0, atc_mul(p->oh, p->ow)), p->kh * p->kw)};
}

DEFINE_FAMILY(pool2d, POOL2D_FIELDS, .check = check, .cost = cost);

bool pool2d_is_max_of_blocks(const struct task_view *task)
{
    const struct pool2d_params *p = task->params;
    return p->kind == POOL_MAX && p->c0 == 16;
}
