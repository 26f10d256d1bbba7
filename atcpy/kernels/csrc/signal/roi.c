/* The roi family: its checker and its cut into planes of results. */
#include "signal/roi.h"

const char *const roi_kind_names[] = {"align", "align_max", "max", NULL};

DESCRIBE_PARAMS(roi, ROI_FIELDS)

enum { MAX_SAMPLING = 1 << 12, MAX_SIDE = 1 << 24 };

static const char *check(const struct task_view *task)
{
    const struct roi_params *p = task->params;
    const int64_t counts[] = {p->n, p->c, p->count}, sides[] = {p->h, p->w, p->oh, p->ow};
    if (task->n_src != (p->kind == ROI_MAX ? 2 : ROI_OPERANDS) || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(counts, 3, 0))
        return "a size is out of range";
    for (int i = 0; i < 4; i++)
        if (sides[i] < 1 || sides[i] > MAX_SIDE)
            return "a side is out of range";
    if (p->sampling < 0 || p->sampling > MAX_SAMPLING)
        return "sampling is out of range";
    if (p->half_pixel != 0 && p->half_pixel != 1)
        return "half_pixel is neither 0 nor 1";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[ROI_X].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype), columns = p->kind == ROI_MAX ? 5 : 4;
    const int64_t results = atc_mul(atc_mul(p->count, p->c), atc_mul(p->oh, p->ow));
    if (!atc_holds(task->src + ROI_X, dtype, atc_mul(atc_mul(p->n, p->c), p->h * p->w), item) ||
        !atc_holds(task->src + ROI_ROIS, dtype, atc_mul(p->count, columns), item) ||
        !atc_holds(task->dst, dtype, results, item) ||
        (p->kind != ROI_MAX && !atc_holds(task->src + ROI_BATCH, DTYPE_I64, p->count, 8)))
        return "an operand is too small or of another type";
    return NULL;
}

/* An item is one channel of one region. */
static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct roi_params *p = params;
    return p->count * p->c;
}

/* A cell has `sampling`² points, or as many as its sides ask for: all of them together then are not
 * more than four for each pixel of the image.
 */
static int64_t work(const void *params)
{
    const struct roi_params *p = params;
    const int64_t cells = atc_mul(p->oh, p->ow), pixels = atc_mul(p->h + 2, p->w + 2);
    const int64_t fixed = atc_mul(cells, p->sampling * p->sampling);
    const int64_t points = p->sampling > 0 ? fixed : atc_add(cells, atc_mul(pixels, 4));
    return atc_mul(atc_mul(p->count, p->c), atc_mul(points, 8));
}

const struct kernel_family family_roi = {
    .name = "roi", .fields = roi_fields, .check = check, .items = items, .work = work};
