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
enum { TABLED = 256 };                    /* taps and cells of a dim that a region's planes share */
enum { MIXED = 1024, MIXED_FOR_TAP = 8 }; /* pixels of a mixed row; those that pay for a tap */

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

/* The pixels [first, last) of a cell, or its points that lie in the image and some beside them. */
struct cell {
    int64_t first, last;
};

/* Along one dim: cell i has points start + (i + (k + ½) / points) · cell, for k below `points`.
 * What the first cells and points are is the same for all planes of a region, and found once.
 */
#define DEFINE_ROI(T, suffix, ceil_, floor_, round_)                                               \
    /* The two pixels that a point lies between, and the part of the second. */                    \
    struct tap_##suffix {                                                                          \
        int64_t low, high; /* low < 0: the point is outside of the image */                        \
        T part;                                                                                    \
    };                                                                                             \
                                                                                                   \
    struct side_##suffix {                                                                         \
        T start, cell;                                                                             \
        int64_t points, size;                                                                      \
        T low, high; /* of the region */                                                           \
        int64_t cells, tabled_cells, tabled_taps;                                                  \
        struct cell pixels; /* that the taps of the table look at */                               \
        struct cell cell_table[TABLED];                                                            \
        struct tap_##suffix taps[TABLED]; /* point k of cell i is number i · points + k */         \
    };                                                                                             \
                                                                                                   \
    static T point_##suffix(const struct side_##suffix *side, int64_t cell, int64_t k)             \
    {                                                                                              \
        return side->start + (T)cell * side->cell +                                                \
               ((T)k + (T)0.5) * side->cell / (T)side->points;                                     \
    }                                                                                              \
                                                                                                   \
    /* The points of a cell between which all that lie in the image are. */                        \
    static struct cell points_##suffix(const struct side_##suffix *side, int64_t cell)             \
    {                                                                                              \
        struct cell all = {0, side->points};                                                       \
        const T step = side->cell / (T)side->points, start = side->start + (T)cell * side->cell;   \
        if (!(step > 0))                                                                           \
            return all;                                                                            \
        const T low = floor_((-1 - start) / step) - 2;                                             \
        const T high = ceil_(((T)side->size - start) / step) + 2;                                  \
        all.first = low > 0 ? low < (T)side->points ? (int64_t)low : side->points : 0;             \
        all.last = high < (T)side->points ? high > 0 ? (int64_t)high : 0 : side->points;           \
        return all;                                                                                \
    }                                                                                              \
                                                                                                   \
    static struct tap_##suffix tap_##suffix(const struct side_##suffix *side, int64_t cell,        \
                                            int64_t k)                                             \
    {                                                                                              \
        T at = point_##suffix(side, cell, k);                                                      \
        const int64_t end = side->size - 1;                                                        \
        if (!(at >= -1 && at <= (T)side->size))                                                    \
            return (struct tap_##suffix){.low = -1};                                               \
        at = at > 0 ? at : 0;                                                                      \
        const int64_t low = (int64_t)at;                                                           \
        if (low >= end)                                                                            \
            return (struct tap_##suffix){.low = end, .high = end, .part = 0};                      \
        return (struct tap_##suffix){.low = low, .high = low + 1, .part = at - (T)low};            \
    }                                                                                              \
                                                                                                   \
    /* The pixels of a cell. */                                                                    \
    static struct cell pixels_##suffix(const struct roi_params *p, const struct side_##suffix *side,\
                                       int64_t cell)                                               \
    {                                                                                              \
        const T start = round_(side->low * (T)p->scale), end = round_(side->high * (T)p->scale);   \
        const T length = end - start + 1 > 1 ? end - start + 1 : 1, size = (T)side->size;          \
        const T from = floor_((T)cell * (length / (T)side->cells)) + start;                        \
        const T to = ceil_((T)(cell + 1) * (length / (T)side->cells)) + start;                     \
        return (struct cell){from > 0 ? from < size ? (int64_t)from : side->size : 0,              \
                             to > 0 ? to < size ? (int64_t)to : side->size : 0};                   \
    }                                                                                              \
                                                                                                   \
    static struct cell cell_##suffix(const struct roi_params *p, const struct side_##suffix *side, \
                                     int64_t cell)                                                 \
    {                                                                                              \
        return p->kind == ROI_MAX ? pixels_##suffix(p, side, cell) : points_##suffix(side, cell);  \
    }                                                                                              \
                                                                                                   \
    static void set_side_##suffix(struct side_##suffix *side, const struct roi_params *p, T low,   \
                                  T high, int64_t cells, int64_t size)                             \
    {                                                                                              \
        const T offset = p->half_pixel ? (T)0.5 : 0;                                               \
        side->start = low * (T)p->scale - offset;                                                  \
        side->size = size;                                                                         \
        side->low = low;                                                                           \
        side->high = high;                                                                         \
        side->cells = cells;                                                                       \
        T length = high * (T)p->scale - offset - side->start;                                      \
        if (!p->half_pixel && !(length > 1))                                                       \
            length = 1;                                                                            \
        side->cell = length / (T)cells;                                                            \
        const T points = ceil_(side->cell);                                                        \
        side->points = p->sampling > 0                       ? p->sampling                         \
                       : points > 0 && points < (T)(1 << 24) ? (int64_t)points                     \
                                                             : 0;                                  \
        side->tabled_cells = min_i64(cells, TABLED);                                               \
        for (int64_t i = 0; i < side->tabled_cells; i++)                                           \
            side->cell_table[i] = cell_##suffix(p, side, i);                                       \
        side->tabled_taps = p->kind == ROI_MAX ? 0 : min_i64(cells * side->points, TABLED);        \
        side->pixels = (struct cell){size, 0};                                                     \
        for (int64_t i = 0; i < side->tabled_taps; i++) {                                          \
            const struct tap_##suffix tap = tap_##suffix(side, i / side->points, i % side->points);\
            side->taps[i] = tap;                                                                   \
            if (tap.low >= 0) {                                                                    \
                side->pixels.first = min_i64(side->pixels.first, tap.low);                         \
                side->pixels.last = side->pixels.last > tap.high ? side->pixels.last : tap.high + 1;\
            }                                                                                      \
        }                                                                                          \
        side->pixels.first = min_i64(side->pixels.first, side->pixels.last);                       \
    }                                                                                              \
                                                                                                   \
    static struct cell find_cell_##suffix(const struct roi_params *p,                              \
                                          const struct side_##suffix *side, int64_t cell)          \
    {                                                                                              \
        return cell < side->tabled_cells ? side->cell_table[cell] : cell_##suffix(p, side, cell);  \
    }                                                                                              \
                                                                                                   \
    static struct tap_##suffix find_tap_##suffix(const struct side_##suffix *side, int64_t cell,   \
                                                 int64_t k)                                        \
    {                                                                                              \
        const int64_t number = cell * side->points + k;                                            \
        return number < side->tabled_taps ? side->taps[number] : tap_##suffix(side, cell, k);      \
    }                                                                                              \
                                                                                                   \
    /* What the points of a cell give, of which `met` lie in the image. */                         \
    static inline T finished_##suffix(bool is_mean, T result, int64_t met,                         \
                                      const struct side_##suffix *h,                               \
                                      const struct side_##suffix *w)                               \
    {                                                                                              \
        const T all = (T)h->points * (T)w->points;                                                 \
        if (is_mean)                                                                               \
            return all > 1 ? result / all : result;                                                \
        return (T)met < all && !(result > 0) ? 0 : result; /* a point outside counts as 0 */       \
    }                                                                                              \
                                                                                                   \
    static inline __attribute__((always_inline)) T align_##suffix(                                 \
        struct atc_meter *meter, bool is_mean, const T *x, const struct side_##suffix *h,          \
        const struct side_##suffix *w, int64_t oh, int64_t ow)                                     \
    {                                                                                              \
        const struct roi_params *p = meter->args->params;                                          \
        const struct cell rows = find_cell_##suffix(p, h, oh);                                     \
        const struct cell columns = find_cell_##suffix(p, w, ow);                                  \
        int64_t met = 0;                                                                           \
        T sum = 0, largest = 0;                                                                    \
        const int64_t across = columns.last > columns.first ? 4 * (columns.last - columns.first) : 0;\
        for (int64_t i = rows.first; i < rows.last && !atc_spend(meter, across); i++) {            \
            const struct tap_##suffix y = find_tap_##suffix(h, oh, i);                             \
            if (y.low < 0)                                                                         \
                continue;                                                                          \
            const T *top = x + y.low * p->w, *bottom = x + y.high * p->w;                          \
            for (int64_t j = columns.first; j < columns.last; j++) {                               \
                const struct tap_##suffix at = find_tap_##suffix(w, ow, j);                        \
                if (at.low < 0)                                                                    \
                    continue;                                                                      \
                const T a = (1 - y.part) * (1 - at.part) * top[at.low];                            \
                const T b = (1 - y.part) * at.part * top[at.high];                                 \
                const T c = y.part * (1 - at.part) * bottom[at.low];                               \
                const T d = y.part * at.part * bottom[at.high];                                    \
                const T ab = a > b ? a : b, cd = c > d ? c : d, best = ab > cd ? ab : cd;          \
                const T before = met++ == 0 ? best : largest;                                      \
                if (is_mean)                                                                       \
                    sum += a + b + c + d;                                                          \
                else                                                                               \
                    largest = best > before ? best : before;                                       \
            }                                                                                      \
        }                                                                                          \
        return finished_##suffix(is_mean, is_mean ? sum : largest, met, h, w);                     \
    }                                                                                              \
                                                                                                   \
    /* Whether align_plane is to make the planes of a region: all taps lie in tables, and are not  \
     * far apart.                                                                                  \
     */                                                                                            \
    static bool mixes_rows_##suffix(const struct side_##suffix *h, const struct side_##suffix *w)  \
    {                                                                                              \
        const int64_t pixels = w->pixels.last - w->pixels.first;                                   \
        return h->tabled_taps == h->cells * h->points && w->tabled_taps == w->cells * w->points && \
               pixels <= min_i64(MIXED, MIXED_FOR_TAP * w->tabled_taps);                           \
    }                                                                                              \
                                                                                                   \
    static inline __attribute__((always_inline)) T mixed_##suffix(bool is_mean, T a, T b)          \
    {                                                                                              \
        return is_mean ? a + b : a > b ? a : b;                                                    \
    }                                                                                              \
                                                                                                   \
    /* The same for a whole plane: the rows that the points of a row of cells look at are mixed    \
     * once, by vectors. The weights of rows are at least 0, so that the largest product remains it.\
     */                                                                                            \
    static inline __attribute__((always_inline)) void align_plane_##suffix(                        \
        struct atc_meter *meter, bool is_mean, const T *x, const struct side_##suffix *h,          \
        const struct side_##suffix *w, T *y)                                                       \
    {                                                                                              \
        const int64_t stride = w->size, pixels = w->pixels.last - w->pixels.first;                 \
        const int64_t across = 4 * (w->tabled_taps + w->cells);                                    \
        for (int64_t oh = 0; oh < h->cells && !atc_spend(meter, across); oh++) {                   \
            T mixed[MIXED];                                                                        \
            int64_t rows = 0;                                                                      \
            for (int64_t i = 0; i < h->points && !atc_spend(meter, pixels); i++) {                 \
                const struct tap_##suffix at = h->taps[oh * h->points + i];                        \
                if (at.low < 0)                                                                    \
                    continue;                                                                      \
                const T *top = x + at.low * stride + w->pixels.first;                              \
                const T *bottom = x + at.high * stride + w->pixels.first;                          \
                const bool is_first = rows++ == 0;                                                 \
                for (int64_t k = 0; k < pixels; k++) {                                             \
                    const T a = (1 - at.part) * top[k], b = at.part * bottom[k];                   \
                    const T v = mixed_##suffix(is_mean, a, b);                                     \
                    mixed[k] = is_first ? v : mixed_##suffix(is_mean, mixed[k], v);                \
                }                                                                                  \
            }                                                                                      \
            for (int64_t ow = 0; ow < w->cells; ow++) {                                            \
                T result = 0;                                                                      \
                int64_t columns = 0;                                                               \
                for (int64_t j = 0; j < w->points && rows > 0; j++) {                              \
                    const struct tap_##suffix at = w->taps[ow * w->points + j];                    \
                    if (at.low < 0)                                                                \
                        continue;                                                                  \
                    const T a = (1 - at.part) * mixed[at.low - w->pixels.first];                   \
                    const T b = at.part * mixed[at.high - w->pixels.first];                        \
                    const T v = mixed_##suffix(is_mean, a, b);                                     \
                    result = columns++ == 0 ? v : mixed_##suffix(is_mean, result, v);              \
                }                                                                                  \
                *y++ = finished_##suffix(is_mean, result, rows * columns, h, w);                   \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static T largest_##suffix(struct atc_meter *meter, const T *x, const struct side_##suffix *h,  \
                              const struct side_##suffix *w, int64_t oh, int64_t ow)               \
    {                                                                                              \
        const struct roi_params *p = meter->args->params;                                          \
        const struct cell rows = find_cell_##suffix(p, h, oh);                                     \
        const struct cell columns = find_cell_##suffix(p, w, ow);                                  \
        const int64_t across = columns.last - columns.first;                                       \
        if (rows.first >= rows.last || across <= 0)                                                \
            return 0;                                                                              \
        T best = x[rows.first * p->w + columns.first];                                             \
        for (int64_t i = rows.first; i < rows.last && !atc_spend(meter, across); i++)              \
            for (int64_t j = columns.first; j < columns.last; j++)                                 \
                best = x[i * p->w + j] > best ? x[i * p->w + j] : best;                            \
        return best;                                                                               \
    }                                                                                              \
                                                                                                   \
    void roi_##suffix##_scalar(const struct kernel_args *args)                                     \
    {                                                                                              \
        const struct roi_params *p = args->params;                                                 \
        const bool pools = p->kind == ROI_MAX;                                                     \
        struct atc_meter meter = {.args = args};                                                   \
        struct side_##suffix h, w;                                                                 \
        int64_t before = -1;                                                                       \
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
            if (region != before && atc_spend(&meter, 4 * TABLED))                                 \
                return;                                                                            \
            if (region != before) {                                                                \
                set_side_##suffix(&h, p, roi[1], roi[3], p->oh, p->h);                             \
                set_side_##suffix(&w, p, roi[0], roi[2], p->ow, p->w);                             \
                before = region;                                                                   \
            }                                                                                      \
            if (p->kind != ROI_MAX && mixes_rows_##suffix(&h, &w)) {                               \
                if (p->kind == ROI_ALIGN_AVG)                                                      \
                    align_plane_##suffix(&meter, true, x, &h, &w, y);                              \
                else                                                                               \
                    align_plane_##suffix(&meter, false, x, &h, &w, y);                             \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t oh = 0; oh < p->oh; oh++)                                                 \
                for (int64_t ow = 0; ow < p->ow && !atc_spend(&meter, 8); ow++)                    \
                    *y++ = p->kind == ROI_MAX         ? largest_##suffix(&meter, x, &h, &w, oh, ow)\
                           : p->kind == ROI_ALIGN_AVG                                              \
                               ? align_##suffix(&meter, true, x, &h, &w, oh, ow)                   \
                               : align_##suffix(&meter, false, x, &h, &w, oh, ow);                 \
        }                                                                                          \
    }

DEFINE_ROI(float, f32, ceilf, floorf, roundf)
DEFINE_ROI(double, f64, ceil, floor, round)
