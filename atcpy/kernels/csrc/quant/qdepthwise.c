/* The qdepthwise family: its checker and how its work is dealt. */
#include "quant/qdepthwise.h"

static const enum atc_dtype result_types[] = {DTYPE_I32, DTYPE_F32, DTYPE_I8, DTYPE_U8};

static const char *check(const struct task_view *task)
{
    const struct qdepthwise_params *p = task->params;
    if (task->n_src != QGEMM_SHARED_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->n, p->c, p->h, p->w, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw, p->dh,
                      p->dw) ||
        !ATC_SIZES_OK(0, p->pt, p->pl))
        return "a size is out of range";
    const int64_t window_h = atc_add(atc_mul(p->oh - 1, p->sh), atc_mul(p->kh - 1, p->dh));
    const int64_t window_w = atc_add(atc_mul(p->ow - 1, p->sw), atc_mul(p->kw + 3, p->dw));
    if (atc_mul(atc_add(window_h, 1), atc_mul(window_w, 4 * QDW_C0)) >= ATC_TOO_BIG)
        return "the windows reach too far";
    const char *reason = qgemm_check_operands(
        task, &(struct qgemm_types){p->x_signed, p->w_signed, result_types[p->result], p->c,
                                    p->w_zeros, p->w_scales});
    if (reason != NULL)
        return reason;
    const int64_t channels = atc_mul(p->n, ceil_div(p->c, QDW_C0) * QDW_C0);
    const int64_t x = atc_mul(channels, atc_mul(p->h, p->w));
    const int64_t y = atc_mul(channels, atc_mul(p->oh, p->ow));
    const int64_t w = atc_mul(ceil_div(p->c, QDW_C0) * QDW_C0, atc_mul(p->kh, p->kw));
    if (!atc_holds(task, task->src + QGEMM_X, DTYPE_ANY, x, 1) ||
        !atc_holds(task, task->src + QGEMM_W, DTYPE_ANY, w, 1) ||
        !atc_holds(task, task->dst, DTYPE_ANY, y, atc_item_bytes(task->dst->dtype)))
        return "an operand is too small";
    return NULL;
}

static int64_t planes(const struct qdepthwise_params *p)
{
    return atc_mul(p->n, ceil_div(p->c, QDW_C0));
}

static int64_t products(const void *params)
{
    const struct qdepthwise_params *p = params;
    return atc_mul(atc_mul(p->n, p->c), atc_mul(atc_mul(p->oh, p->ow), atc_mul(p->kh, p->kw)));
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct qdepthwise_params *p = params;
    const struct qdw_plan plan = qdw_plan(p);
    const int64_t packed = atc_mul(plan.in_rows, plan.columns);
    const int64_t taps = atc_mul(p->kh, plan.pairs);
    const int64_t steps = atc_mul(atc_mul(p->oh, p->ow), taps);
    const int64_t weights = atc_mul(p->kh, plan.weights * QDW_C0 * 4 + p->kw * QDW_C0);
    const int64_t rows = atc_add(plan.in_rows * (int64_t)sizeof(uint8_t *), p->w * QDW_C0);
    return (struct kernel_cost){
        .items = atc_mul(planes(p), plan.chunks),
        .work = atc_mul(planes(p), atc_add(atc_mul(packed, plan.chunks), steps)),
        .scratch = atc_add(atc_add(atc_mul(packed, QDW_C0 * 4), weights),
                           atc_add(atc_mul(taps, (int64_t)sizeof(int64_t)), rows))};
}

DEFINE_FAMILY(qdepthwise, QDEPTHWISE_FIELDS, .check = check, .cost = cost, .products = products);
