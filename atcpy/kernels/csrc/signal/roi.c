/* roi: regions of images, each made [oh, ow]. `align` and `align_max` mix pixels at evenly spread
 * points of each cell; `max` takes the largest pixel of each cell, whose sides are rounded.
 *
 *     x     [n, c, h, w]
 *     rois  [count, 4] as x1, y1, x2, y2, or for `max` [count, 5] with the image's number before
 * them batch [count], int64, the image's number; not for `max` y     [count, c, oh, ow]
 */
#include "core/pieces.h"

#include <math.h>

enum roi_kind { ROI_ALIGN_AVG, ROI_ALIGN_MAX, ROI_MAX };

#define ROI_FIELDS(I64, I64S, F64, ENUM)                                                           \
    I64(n)                                                                                         \
    I64(c) I64(h) I64(w) I64(count) I64(oh) I64(ow) I64(sampling) I64(half_pixel) F64(scale)       \
        ENUM(kind, roi_kind_names)
DECLARE_PARAMS(roi, ROI_FIELDS)

enum { ROI_X, ROI_ROIS, ROI_BATCH, ROI_OPERANDS };

static const char *const roi_kind_names[] = {"align", "align_max", "max", NULL};

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
    if (!atc_holds(task, task->src + ROI_X, dtype, atc_mul(atc_mul(p->n, p->c), p->h * p->w),
                   item) ||
        !atc_holds(task, task->src + ROI_ROIS, dtype, atc_mul(p->count, columns), item) ||
        !atc_holds(task, task->dst, dtype, results, item) ||
        (p->kind != ROI_MAX && !atc_holds(task, task->src + ROI_BATCH, DTYPE_I64, p->count, 8)))
        return "an operand is too small or of another type";
    return NULL;
}

/* What the cells of a region look at along a dim: two points or pixels for each pixel of the image,
 * and two more for each cell, as it may begin and end within one.
 */
static int64_t looked_at(int64_t size, int64_t cells)
{
    return 2 * (size + 2 + cells);
}

/* An item is a plane of results. A cell has `sampling`² points, or as many as its sides ask for. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct roi_params *p = params;
    const bool is_fixed = p->kind != ROI_MAX && p->sampling > 0;
    const int64_t points = is_fixed ? atc_mul(atc_mul(p->oh, p->ow), p->sampling * p->sampling)
                                    : atc_mul(looked_at(p->h, p->oh), looked_at(p->w, p->ow));
    return (struct kernel_cost){.items = p->count * p->c,
                                .work = atc_mul(atc_mul(p->count, p->c), atc_mul(points, 8))};
}

DEFINE_FAMILY(roi, ROI_FIELDS, .check = check, .cost = cost);

/* Along one dim: cell i has points start + (i + (k + ½) / points) · cell, for k below `points`. */
#define DEFINE_ROI(T, suffix, ceil_, floor_, round_)                                               \
    struct side_##suffix {                                                                         \
        T start, cell;                                                                             \
        int64_t points, size;                                                                      \
    };                                                                                             \
                                                                                                   \
    static struct side_##suffix side_##suffix(const struct roi_params *p, T low, T high,           \
                                              int64_t cells, int64_t size)                         \
    {                                                                                              \
        const T offset = p->half_pixel ? (T)0.5 : 0;                                               \
        struct side_##suffix side = {.start = low * (T)p->scale - offset, .size = size};           \
        T length = high * (T)p->scale - offset - side.start;                                       \
        if (!p->half_pixel && !(length > 1))                                                       \
            length = 1;                                                                            \
        side.cell = length / (T)cells;                                                             \
        const T points = ceil_(side.cell);                                                         \
        side.points = p->sampling > 0                     ? p->sampling                            \
                      : points > 0 && points < (T)(1 << 24) ? (int64_t)points                      \
                                                            : 0;                                   \
        return side;                                                                               \
    }                                                                                              \
                                                                                                   \
    static T point_##suffix(const struct side_##suffix *side, int64_t cell, int64_t k)             \
    {                                                                                              \
        return side->start + (T)cell * side->cell +                                                \
               ((T)k + (T)0.5) * side->cell / (T)side->points;                                     \
    }                                                                                              \
                                                                                                   \
    /* The points of a cell between which all that lie in the image are. */                        \
    static void inside_##suffix(const struct side_##suffix *side, int64_t cell, int64_t *first,    \
                                int64_t *last)                                                     \
    {                                                                                              \
        *first = 0;                                                                                \
        *last = side->points;                                                                      \
        const T step = side->cell / (T)side->points, start = side->start + (T)cell * side->cell;   \
        if (!(step > 0))                                                                           \
            return;                                                                                \
        const T low = floor_((-1 - start) / step) - 2;                                             \
        const T high = ceil_(((T)side->size - start) / step) + 2;                                  \
        *first = low > 0 ? low < (T)side->points ? (int64_t)low : side->points : 0;                \
        *last = high < (T)side->points ? high > 0 ? (int64_t)high : 0 : side->points;              \
    }                                                                                              \
                                                                                                   \
    /* The two pixels that a point lies between. False if it is outside of the image. */           \
    static bool between_##suffix(T at, int64_t size, int64_t *low, int64_t *high, T *part)         \
    {                                                                                              \
        if (!(at >= -1 && at <= (T)size))                                                          \
            return false;                                                                          \
        at = at > 0 ? at : 0;                                                                      \
        *low = (int64_t)at;                                                                        \
        *high = *low + 1;                                                                          \
        *part = at - (T)*low;                                                                      \
        if (*low >= size - 1) {                                                                    \
            *low = *high = size - 1;                                                               \
            *part = 0;                                                                             \
        }                                                                                          \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    static T align_##suffix(struct atc_meter *meter, const T *x, const struct side_##suffix *h,    \
                            const struct side_##suffix *w, int64_t oh, int64_t ow)                 \
    {                                                                                              \
        const struct roi_params *p = meter->args->params;                                          \
        int64_t h0, h1, w0, w1, met = 0;                                                           \
        inside_##suffix(h, oh, &h0, &h1);                                                          \
        inside_##suffix(w, ow, &w0, &w1);                                                          \
        T sum = 0, largest = 0;                                                                       \
        const int64_t across = w1 > w0 ? 4 * (w1 - w0) : 0;                                        \
        for (int64_t i = h0; i < h1 && !atc_spend(meter, across); i++) {                           \
            int64_t top, bottom, left, right;                                                      \
            T ly, lx;                                                                              \
            if (!between_##suffix(point_##suffix(h, oh, i), p->h, &top, &bottom, &ly))             \
                continue;                                                                          \
            for (int64_t j = w0; j < w1; j++) {                                                    \
                if (!between_##suffix(point_##suffix(w, ow, j), p->w, &left, &right, &lx))         \
                    continue;                                                                      \
                const T a = (1 - ly) * (1 - lx) * x[top * p->w + left];                            \
                const T b = (1 - ly) * lx * x[top * p->w + right];                                 \
                const T c = ly * (1 - lx) * x[bottom * p->w + left];                               \
                const T d = ly * lx * x[bottom * p->w + right];                                    \
                const T ab = a > b ? a : b, cd = c > d ? c : d, best = ab > cd ? ab : cd;          \
                largest = met++ == 0 || best > largest ? best : largest;                                    \
                sum += a + b + c + d;                                                              \
            }                                                                                      \
        }                                                                                          \
        const T all = (T)h->points * (T)w->points;                                                 \
        if (p->kind == ROI_ALIGN_AVG)                                                              \
            return all > 1 ? sum / all : sum;                                                      \
        return (T)met < all && !(largest > 0) ? 0 : largest; /* a point outside counts as 0 */           \
    }                                                                                              \
                                                                                                   \
    /* The pixels [*first, *last) of a cell. */                                                    \
    static void cell_##suffix(const struct roi_params *p, T low, T high, int64_t cells,            \
                              int64_t size, int64_t cell, int64_t *first, int64_t *last)           \
    {                                                                                              \
        const T start = round_(low * (T)p->scale), end = round_(high * (T)p->scale);               \
        const T length = end - start + 1 > 1 ? end - start + 1 : 1;                                \
        const T from = floor_((T)cell * (length / (T)cells)) + start;                              \
        const T to = ceil_((T)(cell + 1) * (length / (T)cells)) + start;                           \
        *first = from > 0 ? from < (T)size ? (int64_t)from : size : 0;                             \
        *last = to > 0 ? to < (T)size ? (int64_t)to : size : 0;                                    \
    }                                                                                              \
                                                                                                   \
    static T largest_##suffix(struct atc_meter *meter, const T *x, const T *roi, int64_t oh,       \
                              int64_t ow)                                                          \
    {                                                                                              \
        const struct roi_params *p = meter->args->params;                                          \
        int64_t h0, h1, w0, w1;                                                                    \
        cell_##suffix(p, roi[1], roi[3], p->oh, p->h, oh, &h0, &h1);                               \
        cell_##suffix(p, roi[0], roi[2], p->ow, p->w, ow, &w0, &w1);                               \
        if (h0 >= h1 || w0 >= w1)                                                                  \
            return 0;                                                                              \
        T best = x[h0 * p->w + w0];                                                                \
        for (int64_t i = h0; i < h1 && !atc_spend(meter, w1 - w0); i++)                            \
            for (int64_t j = w0; j < w1; j++)                                                      \
                best = x[i * p->w + j] > best ? x[i * p->w + j] : best;                            \
        return best;                                                                               \
    }                                                                                              \
                                                                                                   \
    void roi_##suffix##_scalar(const struct kernel_args *args)                                     \
    {                                                                                              \
        const struct roi_params *p = args->params;                                                 \
        const bool pools = p->kind == ROI_MAX;                                                     \
        struct atc_meter meter = {.args = args};                                                   \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t region = item / p->c;                                                    \
            const T *roi = (const T *)args->src[ROI_ROIS] + region * (pools ? 5 : 4);              \
            const T named = pools && roi[0] >= 0 && roi[0] < (T)p->n ? roi[0] : -1;                \
            const int64_t image =                                                                  \
                pools ? (int64_t)named : ((const int64_t *)args->src[ROI_BATCH])[region];          \
            if (image < 0 || image >= p->n) {                                                      \
                atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, image, p->n);                     \
                return;                                                                            \
            }                                                                                      \
            roi += pools;                                                                          \
            const T *x = (const T *)args->src[ROI_X] +                                             \
                         (image * p->c + item % p->c) * p->h * p->w;                               \
            T *y = (T *)args->dst[0] + item * p->oh * p->ow;                                       \
            const struct side_##suffix h = side_##suffix(p, roi[1], roi[3], p->oh, p->h);          \
            const struct side_##suffix w = side_##suffix(p, roi[0], roi[2], p->ow, p->w);          \
            for (int64_t oh = 0; oh < p->oh; oh++)                                                 \
                for (int64_t ow = 0; ow < p->ow && !atc_spend(&meter, 8); ow++)                    \
                    *y++ = pools ? largest_##suffix(&meter, x, roi, oh, ow)                             \
                                 : align_##suffix(&meter, x, &h, &w, oh, ow);                           \
        }                                                                                          \
    }

DEFINE_ROI(float, f32, ceilf, floorf, roundf)
DEFINE_ROI(double, f64, ceil, floor, round)
