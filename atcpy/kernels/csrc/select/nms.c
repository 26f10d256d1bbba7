/* The nms family: its checker. The work is one item: each box's place depends on all before it. */
#include "select/nms.h"
#include "select/ranked.h"

DESCRIBE_PARAMS(nms, NMS_FIELDS)

static bool is_scalar(const struct task_view *task, int number, enum atc_dtype dtype, int64_t item)
{
    return task->n_src <= number || task->src[number].region == REGION_NONE ||
           atc_holds(task->src + number, dtype, 1, item);
}

static const char *check(const struct task_view *task)
{
    const struct nms_params *p = task->params;
    const int64_t sizes[] = {p->batches, p->classes, p->n, p->room};
    if (task->n_src < 2 || task->n_src > NMS_OPERANDS || task->n_dst != NMS_RESULTS)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 4, 0) || p->room > p->n)
        return "a size is out of range";
    if (p->centred != 0 && p->centred != 1)
        return "centred is neither 0 nor 1";
    const int64_t lanes = atc_mul(p->batches, p->classes);
    if (!is_scalar(task, NMS_MOST, DTYPE_I64, 8) || !is_scalar(task, NMS_IOU, DTYPE_F32, 4) ||
        !is_scalar(task, NMS_LEAST, DTYPE_F32, 4) ||
        !atc_holds(task->src + NMS_BOXES, DTYPE_F32, atc_mul(atc_mul(p->batches, p->n), 4), 4) ||
        !atc_holds(task->src + NMS_SCORES, DTYPE_F32, atc_mul(lanes, p->n), 4) ||
        !atc_holds(task->dst + NMS_Y, DTYPE_I64, atc_mul(atc_mul(lanes, p->room), 3), 8) ||
        !atc_holds(task->dst + NMS_COUNT, DTYPE_I64, 1, 8))
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
    const struct nms_params *p = params;
    const int64_t each = atc_add(16, p->room); /* every box may be compared with all chosen */
    return p->n == 0 ? 0 : atc_mul(atc_mul(p->batches, p->classes), atc_mul(p->n, each));
}

static int64_t scratch(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct nms_params *p = params;
    return atc_mul(p->n, sizeof(struct ranked));
}

const struct kernel_family family_nms = {
    .name = "nms",
    .fields = nms_fields,
    .check = check,
    .items = items,
    .work = work,
    .scratch = scratch,
};
