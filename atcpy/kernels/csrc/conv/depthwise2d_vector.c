/* depthwise2d on vectors: a tile of neighbouring results in registers, all their taps inside. */
#include "conv/depthwise2d.h"
#include "simd/activation_vector.h"
#include "simd/count_up.h"

/* As many sums as leave registers for the taps of a row. */
#ifdef __AVX512F__
enum { MAX_SLIDE = 14 };
#define COUNT_TO_MAX_SLIDE COUNT_TO_14
#else
enum { MAX_SLIDE = 8 };
#define COUNT_TO_MAX_SLIDE COUNT_TO_8
#endif
enum { VECTORS = CONV_C0 / VF, MAX_TILE = 8 / VECTORS, MAX_TAPS = 5 };

struct dw_tile {
    const float *x; /* the row of tap (0, 0), and from which of its columns on */
    int64_t left;
    int64_t begin, end; /* columns of the tile's input that are inside the row */
    const float *w;
    int64_t row_stride, x_stride, tap_stride; /* floats: dilated row, next result, dilated column */
    int64_t kh, kw, w_row;                    /* taps to take, and floats of a row of all taps */
    const float *bias, *residual;
    float *y;
    enum activation activation;
    float alpha, beta;
};

/* Stores neighbouring results of one vector of channels, activated by what fits into registers. */
static inline __attribute__((always_inline)) void dw_store(const struct dw_tile *t, vf *acc,
                                                           int width, int at)
{
    const vf low = vf_set1(t->activation == ACT_CLIP ? t->alpha : 0.0f), high = vf_set1(t->beta);
    if (t->activation == ACT_RELU || t->activation == ACT_CLIP)
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[i] = vf_at_least(low, acc[i]);
    if (t->activation == ACT_CLIP)
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[i] = vf_at_most(high, acc[i]);
#pragma GCC unroll 14
    for (int i = 0; i < width; i++)
        vf_store(t->y + i * CONV_C0 + at, acc[i]);
}

/* Neighbouring results in one vector of channels: the taps of a row stay in registers, and each
 * input is read once for all results that it is part of. Only the first and the last taps − 1
 * columns of the input may lie in the padding.
 */
static inline __attribute__((always_inline)) void dw_slide(const struct dw_tile *t, int taps,
                                                           int stride, int width)
{
    const int columns = (width - 1) * stride + taps;
    for (int at = 0; at < CONV_C0; at += VF) {
        vf acc[MAX_SLIDE];
#pragma GCC unroll 14
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
#pragma GCC unroll 31
            for (int column = 0; column < columns; column++) {
                if ((column < taps - 1 && column < t->begin) ||
                    (column > columns - taps && column >= t->end))
                    continue;
                /* Without this, the compiler reads it for each product. */
                const vf xv = vf_in_register(vf_load(x + (t->left + column) * CONV_C0));
#pragma GCC unroll 14
                for (int i = 0; i < width; i++)
                    if (column - i * stride >= 0 && column - i * stride < taps)
                        acc[i] = vf_fma(xv, wv[column - i * stride], acc[i]);
            }
        }
        dw_store(t, acc, width, at);
    }
}

#define DEFINE(taps, stride, width)                                                                \
    static void dw_slide_##taps##_##stride##_##width(const struct dw_tile *tile)                   \
    {                                                                                              \
        dw_slide(tile, taps, stride, width);                                                       \
    }
#define NAME(taps, stride, width) dw_slide_##taps##_##stride##_##width,

COUNT_TO_MAX_SLIDE(DEFINE, 3, 1)
COUNT_TO_MAX_SLIDE(DEFINE, 3, 2)
COUNT_TO_MAX_SLIDE(DEFINE, 5, 1)
COUNT_TO_MAX_SLIDE(DEFINE, 5, 2)

typedef void (*dw_slide_fn)(const struct dw_tile *tile);
static const dw_slide_fn slides[][2][MAX_SLIDE] = {
    {{COUNT_TO_MAX_SLIDE(NAME, 3, 1)}, {COUNT_TO_MAX_SLIDE(NAME, 3, 2)}},
    {{COUNT_TO_MAX_SLIDE(NAME, 5, 1)}, {COUNT_TO_MAX_SLIDE(NAME, 5, 2)}},
};

/* The functions that slide over the input, by width; NULL: none. */
static const dw_slide_fn *find_slides(const struct depthwise2d_params *p)
{
    if ((p->kw != 3 && p->kw != 5) || p->sw > 2 || p->dw != 1 || p->pl >= p->kw ||
        (p->ow - 1) * p->sw - p->pl >= p->w)
        return NULL;
    return slides[p->kw == 5][p->sw - 1];
}

static inline __attribute__((always_inline)) void dw_tile(const struct dw_tile *t, int width)
{
    vf acc[VECTORS][MAX_TILE];
#pragma GCC unroll 8
    for (int i = 0; i < width; i++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            acc[v][i] = vf_load(t->bias + v * VF);
            if (t->residual != NULL)
                acc[v][i] = vf_add(acc[v][i], vf_load(t->residual + i * CONV_C0 + v * VF));
        }
    const float *first = t->x + t->left * CONV_C0;
    for (int64_t k = 0; k < t->kh; k++) {
        const float *x = first + k * t->row_stride, *w = t->w + k * t->w_row;
        for (int64_t j = 0; j < t->kw; j++, x += t->tap_stride, w += CONV_C0) {
            vf wv[VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                wv[v] = vf_load(w + v * VF);
            const float *xi = x;
#pragma GCC unroll 8
            for (int i = 0; i < width; i++, xi += t->x_stride)
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++)
                    acc[v][i] = vf_fma(vf_load(xi + v * VF), wv[v], acc[v][i]);
        }
    }
#pragma GCC unroll 4
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

/* Sets the taps of a row of results that are inside, and the row that the first of them reads. */
static void dw_take_rows(const struct depthwise2d_params *p, const struct dw_item *at,
                         struct dw_tile *t, int64_t row)
{
    const struct dw_range rows = dw_taps_inside(row * p->sh - p->pt, p->dh, p->kh, p->h);
    const bool in_padding = rows.begin >= rows.end;
    /* Where no tap is inside, `begin` may be anything: nothing may be computed from it. */
    t->kh = in_padding ? 0 : rows.end - rows.begin;
    t->w = in_padding ? at->w : at->w + rows.begin * t->w_row;
    t->x = in_padding ? at->x : at->x + (row * p->sh - p->pt + rows.begin * p->dh) * p->w * CONV_C0;
}

static void dw_take_results(const struct depthwise2d_params *p, const struct dw_item *at,
                            struct dw_tile *t, int64_t row, int64_t column)
{
    const int64_t y_at = (row * p->ow + column) * CONV_C0;
    t->y = at->y + y_at;
    t->residual = at->residual ? at->residual + y_at : NULL;
}

/* Results [begin, end) of a row in tiles of nearly equal width. */
static void dw_slide_row(const struct depthwise2d_params *p, const struct dw_item *at,
                         const dw_slide_fn *by_width, struct dw_tile t, int64_t row, int64_t begin,
                         int64_t end)
{
    const int64_t tiles = ceil_div(end - begin, MAX_SLIDE);
    const int64_t width = (end - begin) / tiles, wider = (end - begin) % tiles;
    for (int64_t tile = 0, column = begin; tile < tiles; tile++) {
        t.left = column * p->sw - p->pl;
        t.begin = -t.left;
        t.end = p->w - t.left;
        dw_take_results(p, at, &t, row, column);
        const int64_t here = width + (tile < wider);
        by_width[here - 1](&t);
        column += here;
    }
}

/* Results [begin, end) of a row, whose taps [taps.begin, taps.end) of a row are inside. */
static void dw_run(const struct depthwise2d_params *p, const struct dw_item *at, struct dw_tile t,
                   struct dw_range taps, int64_t row, int64_t begin, int64_t end)
{
    const bool in_padding = taps.begin >= taps.end;
    t.kw = in_padding ? 0 : taps.end - taps.begin;
    t.w += in_padding ? 0 : taps.begin * CONV_C0;
    for (int64_t column = begin; column < end; column += MAX_TILE) {
        t.left = in_padding ? 0 : column * p->sw - p->pl + taps.begin * p->dw;
        dw_take_results(p, at, &t, row, column);
        dw_tile_of(&t, min_i64(MAX_TILE, end - column));
    }
}

/* Results [begin, end) of a row by tiles whose taps are all inside, the others one by one. */
static void dw_tile_row(const struct depthwise2d_params *p, const struct dw_item *at,
                        const struct dw_tile *t, int64_t row, struct dw_range inner, int64_t begin,
                        int64_t end)
{
    const struct dw_range all = {0, p->kw};
    for (int64_t column = begin; column < end; column++) {
        if (column >= inner.begin && column < inner.end) {
            const int64_t last = min_i64(inner.end, end);
            dw_run(p, at, *t, all, row, column, last);
            column = last - 1;
            continue;
        }
        const struct dw_range taps = dw_taps_inside(column * p->sw - p->pl, p->dw, p->kw, p->w);
        dw_run(p, at, *t, taps, row, column, column + 1);
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
    const enum activation activation = (enum activation)p->activation;
    const struct dw_range inner = dw_inner(p);
    const dw_slide_fn *by_width = find_slides(p);
    const int64_t work = 1 + p->kh * p->kw, each = MAX_SLIDE * (1 + ATC_PIECE / MAX_SLIDE / work);
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct dw_item at = dw_item_at(args, item, FOR_ISA(widen));
        struct dw_tile tile = {
            .row_stride = p->dh * p->w * CONV_C0,
            .x_stride = p->sw * CONV_C0,
            .tap_stride = p->dw * CONV_C0,
            .w_row = p->kw * CONV_C0,
            .bias = at.bias,
            .activation = activation,
            .alpha = (float)p->alpha,
            .beta = (float)p->beta,
        };
        for (int64_t row = at.first_row; row < at.end_row; row++) {
            dw_take_rows(p, &at, &tile, row);
            for (int64_t column = 0; column < p->ow; column += each) {
                const int64_t end = min_i64(column + each, p->ow);
                if (atc_spend(&meter, (end - column) * work))
                    return;
                if (by_width != NULL)
                    dw_slide_row(p, &at, by_width, tile, row, column, end);
                else
                    dw_tile_row(p, &at, &tile, row, inner, column, end);
                if (!vf_activates_in_registers(activation))
                    FOR_ISA(activate_stored)(activation, at.y + (row * p->ow + column) * CONV_C0,
                                             end - column, CONV_C0, CONV_C0, tile.alpha, tile.beta);
            }
        }
    }
}

void FOR_ISA(depthwise2d_f32)(const struct kernel_args *args)
{
    depthwise2d_run(args);
}
