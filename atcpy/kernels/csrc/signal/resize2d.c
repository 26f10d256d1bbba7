/* The resize2d family: its checker, where results lie in the source, and the loops over rows. */
#include "core/pieces.h"
#include "signal/resize2d.h"
#include "simd/streamed.h"

#include <math.h>

const char *const resize_mode_names[] = {"nearest", "linear", NULL};
const char *const resize_coordinates_names[] = {
    "half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_half_pixel", "tf_half_pixel_for_nn", "tf_align_corners",   "tf_asymmetric", NULL};
const char *const resize_rounding_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil", NULL};

enum { MAX_SIDE = 1 << 24, MAX_C0 = 64 }; /* sides that float32 counts exactly */

static const char *check(const struct task_view *task)
{
    const struct resize2d_params *p = task->params;
    const int64_t sides[] = {p->h, p->w, p->oh, p->ow};
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer) || p->c0 < 1 || p->c0 > MAX_C0)
        return "a size is out of range";
    for (int i = 0; i < 4; i++)
        if (sides[i] < 1 || sides[i] > MAX_SIDE)
            return "a side is out of range";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8)
        return "items are of an unknown size";
    if (!(p->scale_h >= 0 && p->scale_h < MAX_SIDE && p->scale_w >= 0 && p->scale_w < MAX_SIDE))
        return "a scale is out of range";
    const enum atc_dtype dtype = p->mode == RESIZE_LINEAR ? DTYPE_F32 : DTYPE_ANY;
    if (dtype == DTYPE_F32 && p->item != 4)
        return "linear is of float32 only";
    const int64_t pixels = atc_mul(p->outer, p->c0);
    if (!atc_holds(task, task->src, dtype, atc_mul(pixels, p->h * p->w), p->item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(pixels, p->oh * p->ow), p->item))
        return "an operand is too small or of another type";
    return NULL;
}

/* Whether nearest pixels are stored past the caches, in rows that the first one has room for. Rows
 * of few lines would mostly be cut ones.
 */
static bool streams_rows(const struct resize2d_params *p)
{
    enum { MIN_ROW = 8 * STREAMED_LINE, MAX_ROW = 1 << 14 }; /* bytes */
    const int64_t row = p->ow * p->c0 * p->item;
    return p->mode == RESIZE_NEAREST && row >= MIN_ROW && row <= MAX_ROW &&
           atc_mul(atc_mul(p->outer, p->oh), row) >= MIN_STREAMED;
}

/* Scratch: the taps along a row, those of the rows of a plane, then a mixed row of the source, or
 * a row of results that are stored past the caches.
 */
static int64_t taps_bytes(int64_t taps)
{
    return (taps * (int64_t)sizeof(struct resize_tap) + 63) / 64 * 64;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct resize2d_params *p = params;
    const int64_t elements = atc_mul(atc_mul(p->outer, p->c0), p->oh * p->ow);
    const int64_t mixed = atc_mul(atc_mul(p->outer, p->c0), atc_mul(p->oh, p->w));
    enum { ROW_WORK = 96 }; /* of taps that are looked up, whatever the columns */
    const int64_t moved =
        p->mode == RESIZE_LINEAR ? atc_add(elements, mixed) : atc_mul(elements, p->item) / 8;
    const int64_t row = p->mode == RESIZE_LINEAR ? p->w * p->c0 * 4
                        : streams_rows(p)        ? p->ow * p->c0 * p->item
                                                 : 0;
    return (struct kernel_cost){.items = p->outer * p->oh,
                                .work = atc_add(moved, atc_mul(p->outer, atc_mul(p->oh, ROW_WORK))),
                                .scratch = taps_bytes(p->ow) + taps_bytes(p->oh) + row};
}

DEFINE_FAMILY(resize2d, RESIZE2D_FIELDS, .check = check, .cost = cost);

bool resize2d_is_linear(const struct task_view *task)
{
    return ((const struct resize2d_params *)task->params)->mode == RESIZE_LINEAR;
}

/* --- where results lie ------------------------------------------------------------------------ */

static float coordinate(enum resize_coordinates kind, float at, float scale, float from, float to)
{
    switch (kind) {
    case HALF_PIXEL:
        return (at + 0.5f) / scale - 0.5f;
    case HALF_PIXEL_SYMMETRIC: {
        const float adjustment = to / (scale * from);
        return from / 2 * (1 - adjustment) + (at + 0.5f) / scale - 0.5f;
    }
    case PYTORCH_HALF_PIXEL:
        return to > 1 ? (at + 0.5f) / scale - 0.5f : 0;
    case ALIGN_CORNERS:
        return to > 1 ? at * (from - 1) / (to - 1) : 0;
    case TF_HALF_PIXEL:
        return (at + 0.5f) * (from / to) - 0.5f;
    case TF_HALF_PIXEL_FOR_NN:
        return (at + 0.5f) * (from / to);
    case TF_ALIGN_CORNERS:
        return to > 1 ? at * ((from - 1) / (to - 1)) : 0;
    case TF_ASYMMETRIC:
        return at * (from / to);
    default:
        return at / scale;
    }
}

static float rounded(enum resize_rounding kind, float x)
{
    switch (kind) {
    case ROUND_PREFER_FLOOR:
        return x == floorf(x) + 0.5f ? floorf(x) : roundf(x);
    case ROUND_PREFER_CEIL:
        return roundf(x);
    case ROUND_FLOOR:
        return floorf(x);
    default:
        return ceilf(x);
    }
}

/* Between 0 and from - 1; fmaxf makes 0 of NaN. */
static float inside(float x, int64_t from)
{
    return fminf(fmaxf(x, 0), (float)(from - 1));
}

static struct resize_tap find_tap(const struct resize2d_params *p, int64_t at, double stated,
                                  int64_t from, int64_t to)
{
    const double scale = stated == 0 ? (double)((float)to / (float)from) : stated;
    const bool same = scale == 1 && from == to;
    const float x = same ? (float)at
                         : coordinate((enum resize_coordinates)p->coordinates, (float)at,
                                      (float)scale, (float)from, (float)to);
    if (p->mode == RESIZE_NEAREST) {
        const float nearest = rounded((enum resize_rounding)p->rounding, x);
        return (struct resize_tap){.low = (int32_t)inside(nearest, from)};
    }
    const float position = inside(x, from);
    struct resize_tap tap = {.low = (int32_t)position};
    tap.high = tap.low + 1 < from ? tap.low + 1 : tap.low;
    tap.high_weight = position - (float)tap.low;
    tap.low_weight = (float)tap.high - position;
    /* At the last pixel both are the same: each counts half, as in ONNX Runtime. */
    if (tap.low == tap.high)
        tap.low_weight = tap.high_weight = 0.5f;
    return tap;
}

static struct resize_taps fill_taps(const struct kernel_args *args)
{
    const struct resize2d_params *p = args->params;
    int32_t *low = args->scratch;
    float *weights = (float *)(void *)(low + 2 * p->ow);
    const struct resize_taps taps = {low, low + p->ow, weights, weights + p->ow};
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->ow);)
        for (int64_t x = piece.begin; x < piece.end; x++) {
            const struct resize_tap tap = find_tap(p, x, p->scale_w, p->w, p->ow);
            taps.low[x] = tap.low;
            taps.high[x] = tap.high;
            taps.low_weight[x] = tap.low_weight;
            taps.high_weight[x] = tap.high_weight;
        }
    return taps;
}

/* The row of results of an item, which is number y of its plane. */
struct result_row {
    int64_t plane, y;
};

static struct result_row row_of(const struct kernel_args *args)
{
    const struct resize2d_params *p = args->params;
    return (struct result_row){args->begin / p->oh, args->begin % p->oh};
}

/* Counts, as a division takes as long as a few pixels. */
static void next_row(const struct resize2d_params *p, struct result_row *row)
{
    if (++row->y < p->oh)
        return;
    row->y = 0;
    row->plane++;
}

/* The taps of the rows of a plane that a call meets: one costs as much as a short row. */
static const struct resize_tap *fill_row_taps(const struct kernel_args *args)
{
    const struct resize2d_params *p = args->params;
    struct resize_tap *taps = (void *)((uint8_t *)args->scratch + taps_bytes(p->ow));
    struct result_row at = row_of(args);
    const int64_t rows = min_i64(args->end - args->begin, p->oh);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, rows);)
        for (int64_t i = piece.begin; i < piece.end; i++, next_row(p, &at))
            taps[at.y] = find_tap(p, at.y, p->scale_h, p->h, p->oh);
    return taps;
}

/* --- nearest ---------------------------------------------------------------------------------- */

/* Pixels of a row between two asks, by their size: whole vectors of them. */
static int64_t pixels_at_once(int64_t size)
{
    return 16 * (1 + ATC_PIECE / 16 / size);
}

static bool is_doubling(const int32_t *low, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (low[i] != i / 2)
            return false;
    return n % 2 == 0;
}

void resize2d_nearest(const struct kernel_args *args, resize_pick_pixels pick,
                      resize_double_pixels twice)
{
    const struct resize2d_params *p = args->params;
    const struct resize_taps taps = fill_taps(args);
    const struct resize_tap *row_taps = fill_row_taps(args);
    const int64_t pixel = p->c0 * p->item, row = p->ow * pixel;
    const bool doubles = pixel <= 8 && is_doubling(taps.low, p->ow);
    const int64_t each = pixels_at_once(pixel);
    const bool streams = streams_rows(p);
    uint8_t *built = (uint8_t *)args->scratch + taps_bytes(p->ow) + taps_bytes(p->oh);
    struct atc_meter meter = {.args = args};
    if (atc_was_stopped(args))
        return;          /* not all taps may be written */
    int64_t before = -1; /* the row of the source that the last result came from */
    struct result_row at = row_of(args);
    for (int64_t item = args->begin; item < args->end; item++, next_row(p, &at)) {
        const int64_t from = at.plane * p->h + row_taps[at.y].low;
        const uint8_t *src = (const uint8_t *)args->src[0] + from * p->w * pixel;
        uint8_t *result = (uint8_t *)args->dst[0] + item * row;
        uint8_t *dst = streams ? built : result;
        /* The next result may be of the same row; written together, it is not read again. */
        const bool both = doubles && !streams && from != before && item + 1 < args->end &&
                          at.y + 1 < p->oh && row_taps[at.y + 1].low == row_taps[at.y].low;
        if (from != before)
            for (int64_t x = 0; x < p->ow; x += each) {
                const int64_t n = min_i64(each, p->ow - x);
                if (atc_spend(&meter, n * pixel))
                    return;
                if (doubles)
                    twice(dst + x * pixel, both ? dst + row + x * pixel : NULL, src + x / 2 * pixel,
                          n / 2, pixel);
                else
                    pick(dst + x * pixel, src, taps.low + x, n, pixel);
            }
        else if (!streams)
            atc_copy(args, dst, dst - row, row);
        if (streams)
            stream_run(result, built, row);
        if (both)
            item++, next_row(p, &at);
        before = from;
    }
    if (streams)
        end_stream();
}

/* --- linear ----------------------------------------------------------------------------------- */

void resize2d_linear(const struct kernel_args *args, resize_mix_rows rows, resize_mix_pixels pixels)
{
    const struct resize2d_params *p = args->params;
    const struct resize_taps taps = fill_taps(args);
    const struct resize_tap *row_taps = fill_row_taps(args);
    float *mixed = (void *)((uint8_t *)args->scratch + taps_bytes(p->ow) + taps_bytes(p->oh));
    const int64_t row = p->w * p->c0, each = pixels_at_once(p->c0);
    struct atc_meter meter = {.args = args};
    if (atc_was_stopped(args))
        return; /* not all taps may be written */
    struct result_row at = row_of(args);
    for (int64_t item = args->begin; item < args->end; item++, next_row(p, &at)) {
        const struct resize_tap tap = row_taps[at.y];
        const float *src = (const float *)args->src[0] + at.plane * p->h * row;
        const float *low = src + tap.low * row, *high = src + tap.high * row;
        float *dst = (float *)args->dst[0] + item * p->ow * p->c0;
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, row);)
            rows(mixed + piece.begin, low + piece.begin, high + piece.begin, &tap,
                 piece.end - piece.begin);
        if (p->ow <= each)
            pixels(dst, mixed, &taps, p->ow, p->c0);
        for (int64_t x = 0; p->ow > each && x < p->ow; x += each) {
            const int64_t n = min_i64(each, p->ow - x);
            if (atc_spend(&meter, n * p->c0))
                return;
            const struct resize_taps from = {taps.low + x, taps.high + x, taps.low_weight + x,
                                             taps.high_weight + x};
            pixels(dst + x * p->c0, mixed, &from, n, p->c0);
        }
    }
}
