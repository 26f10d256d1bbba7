/* The qgemm family: its checker and its cost. */
#include "quant/qgemm_blocking.h"

#include <math.h>

const char *const qgemm_results[] = {"i32", "f32", "i8", "u8", NULL};

enum { MAX_K = INT32_MAX, MAX_LINE = 1 << 24 };

static enum atc_dtype byte_type(int64_t is_signed)
{
    return is_signed == 1 ? DTYPE_I8 : DTYPE_U8;
}

static const char *check_sizes(const struct qgemm_params *p)
{
    if (!ATC_SIZES_OK(1, p->n, p->c, p->h, p->w, p->m, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw,
                      p->dh, p->dw, p->group, p->cg, p->mg, p->src_c0, p->k_c0, p->dst_c0) ||
        !ATC_SIZES_OK(0, p->pt, p->pl))
        return "a size is out of range";
    if (atc_mul(p->group, p->cg) != p->c || atc_mul(p->group, p->mg) != p->m)
        return "groups do not fit the channels";
    if (p->src_c0 != 1 && p->src_c0 != 16 && (p->src_c0 != p->c || !qgemm_is_matrix(p)))
        return "src_c0 is neither 1 nor 16, nor are rows multiplied";
    if (p->dst_c0 != 1 && p->dst_c0 != 16 && (p->dst_c0 != p->m || p->group != 1))
        return "dst_c0 is neither 1 nor 16, nor are rows made";
    if (p->group > 1 &&
        ((p->src_c0 != 1 && p->cg % 16 != 0) || (p->dst_c0 != 1 && p->mg % 16 != 0)))
        return "groups do not fill whole blocks";
    const int64_t window_h = atc_add(atc_mul(p->oh - 1, p->sh), atc_mul(p->kh - 1, p->dh));
    const int64_t window_w = atc_add(atc_mul(p->ow - 1, p->sw), atc_mul(p->kw - 1, p->dw));
    if (window_h >= ATC_TOO_BIG || window_w >= ATC_TOO_BIG)
        return "the windows reach too far";
    const int64_t taps = atc_mul(p->kh, p->kw);
    if (atc_mul(atc_add(p->cg, p->k_c0), taps) > MAX_K || atc_mul(p->oh, p->ow) >= ATC_TOO_BIG)
        return "too many products or results";
    if (p->k_c0 != p->src_c0) {
        if (p->k_c0 != QGEMM_K0 || p->src_c0 != 1 || p->c > QGEMM_K0 || p->group != 1)
            return "k_c0 is neither src_c0 nor 4 for few channels";
        if (atc_mul(qgemm_input_rows(p, 1), atc_mul(qgemm_input_columns(p), QGEMM_K0)) > MAX_LINE)
            return "a line of results takes too much of a picture";
    }
    if (p->w_packed < 0 || p->w_packed > 1 || p->w_batched < 0 || p->w_batched > 1 ||
        (p->w_packed == 1 && p->w_batched == 1) || (p->w_packed == 0 && !qgemm_is_matrix(p)))
        return "weights cannot lie so";
    return NULL;
}

/* True if the operand is there and holds so much, or is absent and may be. */
static bool fits(const struct task_view *task, int source, enum atc_dtype dtype, int64_t elements,
                 bool optional)
{
    const struct atc_slot *slot = task->src + source;
    if (slot->region == REGION_NONE)
        return optional;
    return atc_holds(task, slot, dtype, elements, atc_item_bytes((int)dtype));
}

const char *qgemm_check_operands(const struct task_view *task, const struct qgemm_types *types)
{
    const struct atc_slot *src = task->src;
    if ((types->w_zeros != 1 && types->w_zeros != types->columns) ||
        (types->w_scales != 1 && types->w_scales != types->columns))
        return "zero points or scales are neither one nor one a column";
    if (types->x_signed < 0 || types->x_signed > 1 || types->w_signed < 0 || types->w_signed > 1)
        return "a sign is neither 0 nor 1";
    const enum atc_dtype x = byte_type(types->x_signed), w = byte_type(types->w_signed);
    const enum atc_dtype y = types->y;
    if (src[QGEMM_X].dtype != x || src[QGEMM_W].dtype != w || task->dst->dtype != y)
        return "an operand is of another type";
    if (!fits(task, QGEMM_X_ZERO, x, 1, true) ||
        !fits(task, QGEMM_W_ZERO, w, types->w_zeros, true) || !fits(task, QGEMM_Y_ZERO, y, 1, true))
        return "a zero point is too small or of another type";
    const bool scaled = y != DTYPE_I32, requantised = scaled && y != DTYPE_F32;
    if (!fits(task, QGEMM_BIAS, y == DTYPE_F32 ? y : DTYPE_I32, types->columns, true) ||
        !fits(task, QGEMM_X_SCALE, DTYPE_F32, 1, !scaled) ||
        !fits(task, QGEMM_W_SCALE, DTYPE_F32, types->w_scales, !scaled) ||
        !fits(task, QGEMM_Y_SCALE, DTYPE_F32, 1, !requantised))
        return "bias or a scale is missing, too small or of another type";
    return NULL;
}

/* True for numbers with which 255 steps, and two such products and an offset, are integers of 32
 * bits.
 */
static bool is_scale(double scale)
{
    return scale >= 0x1p-40 && scale <= 0x1p20;
}

static bool is_zero_point(int64_t zero, enum atc_dtype dtype)
{
    return dtype == DTYPE_I8 ? zero >= INT8_MIN && zero <= INT8_MAX
                             : zero >= 0 && zero <= UINT8_MAX;
}

/* An addend of `elements` bytes. */
static const char *check_addend(const struct task_view *task, int64_t elements)
{
    const struct qgemm_params *p = task->params;
    const enum atc_dtype y = task->dst->dtype;
    if (task->src[QGEMM_ADDEND].region == REGION_NONE)
        return NULL;
    if (p->result != QGEMM_I8 && p->result != QGEMM_U8)
        return "an addend for results that are no bytes";
    if (!is_scale(p->product_scale) || !is_scale(p->addend_scale) ||
        !(fabs(p->sum_offset) <= 0x1p28) || !is_zero_point(p->sum_zero, y))
        return "a scale, the offset or the zero point of the sum is out of range";
    if (!atc_holds(task, task->src + QGEMM_ADDEND, y, elements, 1))
        return "the addend is too small or of another type";
    return NULL;
}

const char *qgemm_problem(const struct task_view *task)
{
    const struct qgemm_params *p = task->params;
    if ((task->n_src != QGEMM_OPERANDS && task->n_src != QGEMM_SHARED_OPERANDS) || task->n_dst != 1)
        return "wrong number of operands";
    const char *reason = check_sizes(p);
    if (reason == NULL)
        reason = qgemm_check_operands(task, &(struct qgemm_types){p->x_signed, p->w_signed,
                                                                  qgemm_result_type(p), p->m,
                                                                  p->w_zeros, p->w_scales});
    if (reason != NULL)
        return reason;

    const int64_t pixels = atc_mul(p->n, atc_mul(p->h, p->w));
    const int64_t x = atc_mul(ceil_div(p->c, p->src_c0) * p->src_c0, pixels);
    const int64_t panels = atc_mul(p->group, ceil_div(p->mg, QGEMM_PANEL));
    const int64_t w = p->w_packed == 1
                          ? atc_mul(panels, atc_mul(qgemm_k1(p) + 1, QGEMM_BLOCK))
                          : atc_mul(p->w_batched == 1 ? p->n : 1, atc_mul(p->cg, p->m));
    const int64_t y =
        atc_mul(ceil_div(p->m, p->dst_c0) * p->dst_c0, atc_mul(p->n, atc_mul(p->oh, p->ow)));
    if (!atc_holds(task, task->src + QGEMM_X, DTYPE_ANY, x, 1) ||
        !atc_holds(task, task->src + QGEMM_W, DTYPE_ANY, w, 1) ||
        !atc_holds(task, task->dst, DTYPE_ANY, y, atc_item_bytes(task->dst->dtype)))
        return "an operand is too small";
    return task->n_src == QGEMM_OPERANDS ? check_addend(task, y) : NULL;
}

/* Tiles read rows, or windows that are copied side by side; one row is bound by reading w. */
bool qgemm_fills_tiles(const struct task_view *task)
{
    const struct qgemm_params *p = task->params;
    return (qgemm_reads_rows(p) || p->k_c0 == 1) && p->oh * p->ow > 1;
}

int64_t qgemm_products(const void *params)
{
    const struct qgemm_params *p = params;
    const int64_t results = atc_mul(atc_mul(p->n, p->m), atc_mul(p->oh, p->ow));
    return atc_mul(results, atc_mul(p->cg, atc_mul(p->kh, p->kw)));
}

struct kernel_cost qgemm_cost(const void *params, const struct atc_cpu *cpu)
{
    const struct qgemm_params *p = params;
    const struct qgemm_blocking b = qgemm_block(p, cpu);
    const int64_t columns = atc_mul(p->group, ceil_div(p->mg, QGEMM_PANEL) * QGEMM_PANEL);
    const int64_t results = atc_mul(atc_mul(p->n, columns), atc_mul(p->oh, p->ow));
    return (struct kernel_cost){.items =
                                    atc_mul(atc_mul(p->n, p->group), atc_mul(b.chunks, b.groups)),
                                .work = atc_div(atc_mul(results, qgemm_k(p) + QGEMM_PANEL), 32),
                                .scratch = qgemm_scratch_of(p, &b).bytes};
}

DEFINE_FAMILY(qgemm, QGEMM_FIELDS, .check = qgemm_problem, .cost = qgemm_cost,
              .products = qgemm_products, .inplace = 1u << QGEMM_ADDEND);
