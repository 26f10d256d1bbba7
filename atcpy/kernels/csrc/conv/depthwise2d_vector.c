/* depthwise2d on vectors: a tile of neighbouring results in registers, all their taps inside. */
#include "conv/depthwise2d.h"
#include "simd/activation_vector.h"
#include "simd/count_up.h"

enum { VECTORS = CONV_C0 / VF, MAX_TILE = 8 / VECTORS, MAX_SLIDE = 8, MAX_TAPS = 5 };

struct dw_tile {
    const float *x; /* tap (0, 0) of the first result */
    const float *w;
    int64_t row_stride, x_stride, tap_stride; /* floats: dilated row, next result, dilated column */
    int64_t kh, kw, w_row;                    /* taps to take, and floats of a row of all taps */
    const float *bias, *residual;
    float *y;
    enum activation activation;
    float alpha, beta;
};

/* Stores neighbouring results of one vector of channels, activated: sums stay in registers. */
static inline __attribute__((always_inline)) void dw_store(const struct dw_tile *t, vf *acc,
                                                           int width, int at)
{
    const vf low = vf_set1(t->activation == ACT_CLIP ? t->alpha : 0.0f), high = vf_set1(t->beta);
    if (t->activation == ACT_RELU || t->activation == ACT_CLIP)
#pragma GCC unroll 8
        for (int i = 0; i < width; i++)
            acc[i] = vf_at_least(low, acc[i]);
    if (t->activation == ACT_CLIP)
#pragma GCC unroll 8
        for (int i = 0; i < width; i++)
            acc[i] = vf_at_most(high, acc[i]);
#pragma GCC unroll 8
    for (int i = 0; i < width; i++)
        vf_store(t->y + i * CONV_C0 + at, acc[i]);
    if (!vf_activates_in_registers(t->activation))
        FOR_ISA(activate_stored)(t->activation, t->y + at, width, CONV_C0, t->alpha, t->beta);
}

/* Neighbouring results of stride 1 in one vector of channels: the taps of a row stay in registers,
 * and each input is read once for all results that it is part of.
 */
static inline __attribute__((always_inline)) void dw_slide(const struct dw_tile *t, int taps,
                                                           int width)
{
    for (int at = 0; at < CONV_C0; at += VF) {
        vf acc[MAX_SLIDE];
#pragma GCC unroll 8
        for (int i = 0; i < width; i++) {
            acc[i] = vf_load(t->bias + at);
            if (t->residual != NULL)
                acc[i] = vf_add(acc[i], vf_load(t->residual + i * CONV_C0 + at));
        }
        const float *x = t->x + at, *w = t->w + at;
        for (int64_t k = 0; k < t->kh; k++, x += t->row_stride, w += t->w_row) {
            vf wv[MAX_TAPS];
#pragma GCC unroll 5
            for (int j = 0; j < taps; j++)
                wv[j] = vf_load(w + j * CONV_C0);
#pragma GCC unroll 12
            for (int column = 0; column < width + taps - 1; column++) {
                const vf xv = vf_load(x + column * CONV_C0);
#pragma GCC unroll 8
                for (int i = 0; i < width; i++)
                    if (column - i >= 0 && column - i < taps)
                        acc[i] = vf_fma(xv, wv[column - i], acc[i]);
            }
        }
        dw_store(t, acc, width, at);
    }
}

#define DEFINE(taps, width)                                                                        \
    static void dw_slide_##taps##_##width(const struct dw_tile *tile)                              \
    {                                                                                              \
        dw_slide(tile, taps, width);                                                               \
    }
#define NAME(taps, width) dw_slide_##taps##_##width,

COUNT_TO_8(DEFINE, 3)
COUNT_TO_8(DEFINE, 5)

typedef void (*dw_slide_fn)(const struct dw_tile *tile);
static const dw_slide_fn slides_3[] = {COUNT_TO_8(NAME, 3)};
static const dw_slide_fn slides_5[] = {COUNT_TO_8(NAME, 5)};

/* The functions that slide over the tile's inputs, by width; NULL: none. */
static const dw_slide_fn *find_slides(const struct dw_tile *t)
{
    if (t->x_stride != CONV_C0 || t->tap_stride != CONV_C0)
        return NULL;
    return t->kw == 3 ? slides_3 : t->kw == 5 ? slides_5 : NULL;
}

static inline __attribute__((always_inline)) void dw_tile(const struct dw_tile *t, int width)
{
    vf acc[VECTORS][MAX_TILE];
#pragma GCC unroll 8
    for (int i = 0; i < width; i++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            acc[v][i] = vf_load(t->bias + v * VF);
            if (t->residual != NULL)
                acc[v][i] = vf_add(acc[v][i], vf_load(t->residual + i * CONV_C0 + v * VF));
        }
    for (int64_t k = 0; k < t->kh; k++) {
        const float *x = t->x + k * t->row_stride, *w = t->w + k * t->w_row;
        for (int64_t j = 0; j < t->kw; j++, x += t->tap_stride, w += CONV_C0) {
            vf wv[VECTORS];
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++)
                wv[v] = vf_load(w + v * VF);
            const float *xi = x;
#pragma GCC unroll 8
            for (int i = 0; i < width; i++, xi += t->x_stride)
#pragma GCC unroll 2
                for (int v = 0; v < VECTORS; v++)
                    acc[v][i] = vf_fma(vf_load(xi + v * VF), wv[v], acc[v][i]);
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++)
        dw_store(t, acc[v], width, v * VF);
}

static void dw_tile_of(const struct dw_tile *t, int64_t width)
{
#define TILE(n)                                                                                    \
    case n:                                                                                        \
        if (n <= MAX_TILE)                                                                         \
            dw_tile(t, n);                                                                         \
        break
    switch (width) {
        TILE(1);
        TILE(2);
        TILE(3);
        TILE(4);
        TILE(5);
        TILE(6);
        TILE(7);
        TILE(8);
    }
#undef TILE
}

/* Results [begin, end) of a row, whose taps [taps.begin, taps.end) of a row are inside. */
static void dw_run(const struct depthwise2d_params *p, const struct dw_item *at, struct dw_tile t,
                   struct dw_range rows, struct dw_range taps, int64_t row, int64_t begin,
                   int64_t end)
{
    const bool in_padding = rows.begin >= rows.end || taps.begin >= taps.end;
    const int64_t top = row * p->sh - p->pt + rows.begin * p->dh;
    t.kh = in_padding ? 0 : rows.end - rows.begin;
    t.kw = in_padding ? 0 : taps.end - taps.begin;
    /* Where no tap is inside, `begin` may be anything: nothing may be computed from it. */
    t.w = in_padding ? at->w : at->w + (rows.begin * p->kw + taps.begin) * CONV_C0;
    const dw_slide_fn *slides = find_slides(&t);
    for (int64_t column = begin; column < end;) {
        const int64_t left = column * p->sw - p->pl + taps.begin * p->dw;
        const int64_t width = min_i64(slides != NULL ? MAX_SLIDE : MAX_TILE, end - column);
        const int64_t y_at = (row * p->ow + column) * CONV_C0;
        t.x = in_padding ? at->x : at->x + (top * p->w + left) * CONV_C0;
        t.y = at->y + y_at;
        t.residual = at->residual ? at->residual + y_at : NULL;
        if (slides != NULL)
            slides[width - 1](&t);
        else
            dw_tile_of(&t, width);
        column += width;
    }
}

/* Columns [begin, end) of a row of results. */
static void dw_row(const struct depthwise2d_params *p, const struct dw_item *at,
                   const struct dw_tile *t, int64_t row, struct dw_range inner, int64_t begin,
                   int64_t end)
{
    const struct dw_range rows = dw_taps_inside(row * p->sh - p->pt, p->dh, p->kh, p->h);
    const struct dw_range all = {0, p->kw};
    for (int64_t column = begin; column < end; column++) {
        if (column >= inner.begin && column < inner.end) {
            const int64_t last = min_i64(inner.end, end);
            dw_run(p, at, *t, rows, all, row, column, last);
            column = last - 1;
            continue;
        }
        const struct dw_range taps = dw_taps_inside(column * p->sw - p->pl, p->dw, p->kw, p->w);
        dw_run(p, at, *t, rows, taps, row, column, column + 1);
    }
}

/* Columns of results whose taps are all inside. */
static struct dw_range dw_inner(const struct depthwise2d_params *p)
{
    const int64_t room = p->w + p->pl - (p->kw - 1) * p->dw;
    struct dw_range inner = {(p->pl + p->sw - 1) / p->sw, room > 0 ? (room - 1) / p->sw + 1 : 0};
    if (inner.end > p->ow)
        inner.end = p->ow;
    return inner;
}

static void depthwise2d_run(const struct kernel_args *args)
{
    const struct depthwise2d_params *p = args->params;
    const struct dw_range inner = dw_inner(p);
    const int64_t work = 1 + p->kh * p->kw, each = MAX_SLIDE * (1 + ATC_PIECE / MAX_SLIDE / work);
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct dw_item at = dw_item_at(args, item, FOR_ISA(widen));
        const struct dw_tile tile = {
            .row_stride = p->dh * p->w * CONV_C0,
            .x_stride = p->sw * CONV_C0,
            .tap_stride = p->dw * CONV_C0,
            .w_row = p->kw * CONV_C0,
            .bias = at.bias,
            .activation = (enum activation)p->activation,
            .alpha = (float)p->alpha,
            .beta = (float)p->beta,
        };
        for (int64_t row = at.first_row; row < at.end_row; row++) {
            for (int64_t column = 0; column < p->ow; column += each) {
                const int64_t end = min_i64(column + each, p->ow);
                if (atc_spend(&meter, (end - column) * work))
                    return;
                dw_row(p, &at, &tile, row, inner, column, end);
            }
        }
    }
}

void FOR_ISA(depthwise2d_f32)(const struct kernel_args *args)
{
    depthwise2d_run(args);
}
