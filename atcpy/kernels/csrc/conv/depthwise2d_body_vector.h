/* depthwise2d on vectors: a tile of neighbouring results in registers, all their taps inside. The
 * loops are made for each type of the input.
 */
#ifndef ATC_DEPTHWISE2D_BODY_VECTOR_H
#define ATC_DEPTHWISE2D_BODY_VECTOR_H

#include "conv/depthwise2d.h"
#include "conv/stored_vector.h"
#include "simd/activation_vector.h"
#include "simd/count_up.h"

/* As many sums as leave registers for the taps of a row: three, or five. */
#ifdef __AVX512F__
enum { MAX_SLIDE = 14, MAX_SLIDE_5 = 14 };
#define COUNT_TO_MAX_SLIDE   COUNT_TO_14
#define COUNT_TO_MAX_SLIDE_5 COUNT_TO_14
#elif defined __AVX2__
enum { MAX_SLIDE = 12, MAX_SLIDE_5 = 8 };
#define COUNT_TO_MAX_SLIDE   COUNT_TO_12
#define COUNT_TO_MAX_SLIDE_5 COUNT_TO_8
#else
enum { MAX_SLIDE = 8, MAX_SLIDE_5 = 8 };
#define COUNT_TO_MAX_SLIDE   COUNT_TO_8
#define COUNT_TO_MAX_SLIDE_5 COUNT_TO_8
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
    bool residual_bf16, y_bf16;
    /* For floats of a tile that are activated where they are stored, and rounded after that; NULL:
     * results need no such room.
     */
    float *room;
    enum activation activation;
    float alpha, beta;
};

/* Floats in whose room a block of channels of one position of the input lies. */
static inline int64_t dw_pixel(bool x_bf16)
{
    return x_bf16 ? CONV_C0 / 2 : CONV_C0;
}

/* Branches once for all results, as their accumulators stay in registers then. */
static inline __attribute__((always_inline)) void dw_add_residual(const struct dw_tile *t, vf *acc,
                                                                  int width, int at)
{
    if (t->residual == NULL)
        return;
    if (t->residual_bf16) {
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[i] = vf_add(acc[i], load_stored(t->residual, true, i * CONV_C0 + at));
        return;
    }
#pragma GCC unroll 14
    for (int i = 0; i < width; i++)
        acc[i] = vf_add(acc[i], load_stored(t->residual, false, i * CONV_C0 + at));
}

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
    if (t->y_bf16) {
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            store_stored(t->y, true, i * CONV_C0 + at, acc[i]);
        return;
    }
#pragma GCC unroll 14
    for (int i = 0; i < width; i++)
        vf_store(t->y + i * CONV_C0 + at, acc[i]);
}

/* Neighbouring results in one vector of channels: the taps of a row stay in registers, and each
 * input is read once for all results that it is part of. Only the first and the last taps − 1
 * columns of the input may lie in the padding.
 */
static inline __attribute__((always_inline)) void dw_slide(const struct dw_tile *t, bool x_bf16,
                                                           int taps, int stride, int width)
{
    const int columns = (width - 1) * stride + taps;
    /* Unrolled, the function takes a fourth longer: it has twice as many instructions to decode. */
#pragma GCC unroll 1
    for (int at = 0; at < CONV_C0; at += VF) {
        vf acc[MAX_SLIDE];
#pragma GCC unroll 14
        for (int i = 0; i < width; i++)
            acc[i] = vf_load(t->bias + at);
        dw_add_residual(t, acc, width, at);
        const float *x = t->x + t->left * dw_pixel(x_bf16), *w = t->w + at;
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
                const vf xv = vf_in_register(load_stored(x, x_bf16, column * CONV_C0 + at));
#pragma GCC unroll 14
                for (int i = 0; i < width; i++)
                    if (column - i * stride >= 0 && column - i * stride < taps)
                        acc[i] = vf_fma(xv, wv[column - i * stride], acc[i]);
            }
        }
        dw_store(t, acc, width, at);
    }
}

typedef void (*dw_slide_fn)(const struct dw_tile *tile);
/* By taps, stride and width. */
typedef const dw_slide_fn dw_slides[2][2][MAX_SLIDE];

#define DEFINE(type, taps, stride, width)                                                          \
    static void dw_slide_##type##_##taps##_##stride##_##width(const struct dw_tile *tile)          \
    {                                                                                              \
        dw_slide(tile, CONV_##type == CONV_BF16, taps, stride, width);                             \
    }
#define NAME(type, taps, stride, width) dw_slide_##type##_##taps##_##stride##_##width,
#define DEFINE_SLIDES(name, type)                                                                  \
    COUNT_TO_MAX_SLIDE(DEFINE, type, 3, 1)                                                         \
    COUNT_TO_MAX_SLIDE(DEFINE, type, 3, 2)                                                         \
    COUNT_TO_MAX_SLIDE_5(DEFINE, type, 5, 1)                                                       \
    COUNT_TO_MAX_SLIDE_5(DEFINE, type, 5, 2)                                                       \
    static dw_slides name = {                                                                      \
        {{COUNT_TO_MAX_SLIDE(NAME, type, 3, 1)}, {COUNT_TO_MAX_SLIDE(NAME, type, 3, 2)}},          \
        {{COUNT_TO_MAX_SLIDE_5(NAME, type, 5, 1)}, {COUNT_TO_MAX_SLIDE_5(NAME, type, 5, 2)}},        \
    };

/* The functions that slide over the input, by width; NULL: none. */
static const dw_slide_fn *find_slides(const struct depthwise2d_params *p, dw_slides slides)
{
    if ((p->kw != 3 && p->kw != 5) || p->sw > 2 || p->dw != 1 || p->pl >= p->kw ||
        (p->ow - 1) * p->sw - p->pl >= p->w)
        return NULL;
    return slides[p->kw == 5][p->sw - 1];
}

static inline __attribute__((always_inline)) void dw_tile(const struct dw_tile *t, bool x_bf16,
                                                          int width)
{
    vf acc[VECTORS][MAX_TILE];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
#pragma GCC unroll 8
        for (int i = 0; i < width; i++)
            acc[v][i] = vf_load(t->bias + v * VF);
        dw_add_residual(t, acc[v], width, v * VF);
    }
    const float *first = t->x + t->left * dw_pixel(x_bf16);
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
                    acc[v][i] = vf_fma(load_stored(xi, x_bf16, v * VF), wv[v], acc[v][i]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
        dw_store(t, acc[v], width, v * VF);
}

static inline __attribute__((always_inline)) void dw_tile_of(const struct dw_tile *t, bool x_bf16,
                                                             int64_t width)
{
#define TILE(n)                                                                                    \
    case n:                                                                                        \
        if (n <= MAX_TILE)                                                                         \
            dw_tile(t, x_bf16, n);                                                                         \
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
static inline __attribute__((always_inline)) void dw_take_rows(const struct depthwise2d_params *p,
                                                               const struct dw_item *at,
                                                               struct dw_tile *t, int64_t row)
{
    const struct dw_range rows = dw_taps_inside(row * p->sh - p->pt, p->dh, p->kh, p->h);
    const bool in_padding = rows.begin >= rows.end;
    /* Where no tap is inside, `begin` may be anything: nothing may be computed from it. */
    t->kh = in_padding ? 0 : rows.end - rows.begin;
    t->w = in_padding ? at->w : at->w + rows.begin * t->w_row;
    const int64_t first = (row * p->sh - p->pt + rows.begin * p->dh) * p->w;
    t->x = in_padding ? at->x : at->x + conv2d_floats(p->x_type, first * CONV_C0);
}

static inline __attribute__((always_inline)) void
dw_take_results(const struct depthwise2d_params *p, const struct dw_item *at, struct dw_tile *t,
                int64_t row, int64_t column)
{
    const int64_t y_at = (row * p->ow + column) * CONV_C0;
    t->y = at->y + conv2d_floats(p->y_type, y_at);
    t->residual = at->residual ? at->residual + conv2d_floats(p->residual_type, y_at) : NULL;
}

/* Ends a tile, whose floats are in the room, with its results at `y`. */
static void dw_round(const struct dw_tile *t, float *y, int64_t width)
{
    VECTORS_FOR_ISA(activate_stored)(t->activation, t->room, width, CONV_C0, CONV_C0, t->alpha,
                                     t->beta);
    for (int64_t i = 0; i < width * CONV_C0; i += VF)
        store_stored(y, true, i, vf_load(t->room + i));
}

/* Results [begin, end) of a row in tiles of nearly equal width. */
static inline __attribute__((always_inline)) void dw_slide_row(const struct depthwise2d_params *p,
                                                               const struct dw_item *at,
                                                               const dw_slide_fn *by_width,
                                                               struct dw_tile *t, int64_t row,
                                                               int64_t begin, int64_t end)
{
    const int64_t tiles = ceil_div(end - begin, p->kw == 5 ? MAX_SLIDE_5 : MAX_SLIDE);
    const int64_t width = (end - begin) / tiles, wider = (end - begin) % tiles;
    for (int64_t tile = 0, column = begin; tile < tiles; tile++) {
        t->left = column * p->sw - p->pl;
        t->begin = -t->left;
        t->end = p->w - t->left;
        dw_take_results(p, at, t, row, column);
        const int64_t here = width + (tile < wider);
        float *y = t->y;
        t->y = t->room != NULL ? t->room : y;
        by_width[here - 1](t);
        if (t->room != NULL)
            dw_round(t, y, here);
        column += here;
    }
}

/* Results [begin, end) of a row, whose taps [taps.begin, taps.end) of a row are inside. */
static inline __attribute__((always_inline)) void dw_run(const struct depthwise2d_params *p,
                                                         const struct dw_item *at, bool x_bf16,
                                                         struct dw_tile t, struct dw_range taps,
                                                         int64_t row, int64_t begin, int64_t end)
{
    const bool in_padding = taps.begin >= taps.end;
    t.kw = in_padding ? 0 : taps.end - taps.begin;
    t.w += in_padding ? 0 : taps.begin * CONV_C0;
    for (int64_t column = begin; column < end; column += MAX_TILE) {
        t.left = in_padding ? 0 : column * p->sw - p->pl + taps.begin * p->dw;
        dw_take_results(p, at, &t, row, column);
        const int64_t width = min_i64(MAX_TILE, end - column);
        float *y = t.y;
        t.y = t.room != NULL ? t.room : y;
        dw_tile_of(&t, x_bf16, width);
        if (t.room != NULL)
            dw_round(&t, y, width);
    }
}

/* Results [begin, end) of a row by tiles whose taps are all inside, the others one by one. */
static inline __attribute__((always_inline)) void
dw_tile_row(const struct depthwise2d_params *p, const struct dw_item *at, bool x_bf16,
            const struct dw_tile *t, int64_t row, struct dw_range inner, int64_t begin, int64_t end)
{
    const struct dw_range all = {0, p->kw};
    for (int64_t column = begin; column < end; column++) {
        if (column >= inner.begin && column < inner.end) {
            const int64_t last = min_i64(inner.end, end);
            dw_run(p, at, x_bf16, *t, all, row, column, last);
            column = last - 1;
            continue;
        }
        const struct dw_range taps = dw_taps_inside(column * p->sw - p->pl, p->dw, p->kw, p->w);
        dw_run(p, at, x_bf16, *t, taps, row, column, column + 1);
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

static inline __attribute__((always_inline)) void depthwise2d_run(const struct kernel_args *args,
                                                                  bool x_bf16, dw_slides slides)
{
    const struct depthwise2d_params *p = args->params;
    const enum activation activation = (enum activation)p->activation;
    const struct dw_range inner = dw_inner(p);
    const dw_slide_fn *by_width = find_slides(p, slides);
    const int64_t work = 1 + p->kh * p->kw, each = MAX_SLIDE * (1 + ATC_PIECE / MAX_SLIDE / work);
    const bool y_bf16 = p->y_type == CONV_BF16,
               rounds = y_bf16 && !activates_in_registers(activation);
    float room[MAX_SLIDE * CONV_C0];
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct dw_item at = dw_item_at(args, item, VECTORS_FOR_ISA(widen));
        struct dw_tile tile = {
            .row_stride = p->dh * p->w * dw_pixel(x_bf16),
            .x_stride = p->sw * dw_pixel(x_bf16),
            .tap_stride = p->dw * dw_pixel(x_bf16),
            .w_row = p->kw * CONV_C0,
            .bias = at.bias,
            .residual_bf16 = p->residual_type == CONV_BF16,
            .y_bf16 = y_bf16 && !rounds,
            .room = rounds ? room : NULL,
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
                    dw_slide_row(p, &at, by_width, &tile, row, column, end);
                else
                    dw_tile_row(p, &at, x_bf16, &tile, row, inner, column, end);
                if (!activates_in_registers(activation) && !y_bf16)
                    VECTORS_FOR_ISA(activate_stored)(
                        activation, at.y + (row * p->ow + column) * CONV_C0, end - column, CONV_C0,
                        CONV_C0, tile.alpha, tile.beta);
            }
        }
    }
}

#endif
