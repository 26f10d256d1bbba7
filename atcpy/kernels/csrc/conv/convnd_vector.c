/* convnd as products of matrices: the windows of a block of results are packed, a row for each tap
 * of each channel, and every output channel of the group is a sum of those rows. Rows that lie in
 * the padding are zeros.
 */
#include "conv/convnd.h"
#include "simd/vector.h"

enum { VECTORS = 3, COLUMNS = VECTORS * VF, MAX_ROWS = VF == 16 ? CONVND_MAX_ROWS : 4 };
static_assert(CONVND_BLOCK % COLUMNS == 0, "a block is whole tiles");

/* Some output channels by COLUMNS results, over a run of taps. */
struct tile {
    const float *b; /* a row of results for each tap */
    int64_t b_row;
    const float *w; /* of channel r and tap k: w[at[k] + r · w_row] */
    const int64_t *at;
    int64_t w_row, taps;
    float *y;
    int64_t y_row;
};

static inline __attribute__((always_inline)) void run_tile(const struct tile *t, int rows)
{
    vf sums[CONVND_MAX_ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] = vf_load(t->y + r * t->y_row + v * VF);
    for (int64_t k = 0; k < t->taps; k++) {
        const float *b = t->b + k * t->b_row, *w = t->w + t->at[k];
        vf x[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            x[v] = vf_load(b + v * VF);
        for (int r = 0; r < rows; r++) {
            const vf factor = vf_set1(w[r * t->w_row]);
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = vf_fma(factor, x[v], sums[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            vf_store(t->y + r * t->y_row + v * VF, sums[r][v]);
}

static void run_rows(const struct tile *t, int64_t rows)
{
    switch (rows) {
    case 8:
        run_tile(t, 8);
        return;
    case 7:
        run_tile(t, 7);
        return;
    case 6:
        run_tile(t, 6);
        return;
    case 5:
        run_tile(t, 5);
        return;
    case 4:
        run_tile(t, 4);
        return;
    case 3:
        run_tile(t, 3);
        return;
    case 2:
        run_tile(t, 2);
        return;
    default:
        run_tile(t, 1);
    }
}

/* A tap that results of an item meet; `index` is its number in the kernel. */
struct tap {
    int64_t offset[CONVND_DIMS], index;
};

/* Lists taps from number *next on, at most CONVND_KC; returns how many, and goes on behind them. */
static int64_t list_taps(struct atc_meter *meter, const struct convnd_item *item, int64_t *next,
                         struct tap *taps)
{
    const struct convnd_params *p = meter->args->params;
    const int64_t plane = p->kernel[1] * p->kernel[2];
    int64_t n = 0;
    for (; *next < p->kernel[0] * plane && n < CONVND_KC && !atc_spend(meter, 1); ++*next) {
        struct tap *tap = taps + n;
        tap->index = *next;
        n += convnd_meets(p, item, 0, *next / plane, tap->offset) &&
             convnd_meets(p, item, 1, *next / p->kernel[2] % p->kernel[1], tap->offset + 1) &&
             convnd_meets(p, item, 2, *next % p->kernel[2], tap->offset + 2);
    }
    return n;
}

/* Elements of an input row that go to columns of a packed row. */
struct piece {
    int64_t from, column, count;
};

/* What a tap reads for the segments of an item, in the volume of any channel. */
static int find_pieces(const struct convnd_params *p, const struct convnd_item *item,
                       const struct convnd_segment *segments, int n, const struct tap *tap,
                       struct piece *pieces)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        const int64_t d = segments[i].d * item->x_step[0] + tap->offset[0];
        const int64_t h = segments[i].h * item->x_step[1] + tap->offset[1];
        if (d < 0 || d >= p->in[0] || h < 0 || h >= p->in[1])
            continue;
        const struct convnd_segment s =
            convnd_inside(p, segments[i], item->x_step[2], tap->offset[2]);
        if (s.first < s.last)
            pieces[found++] = (struct piece){(d * p->in[1] + h) * p->in[2] +
                                                 s.first * item->x_step[2] + tap->offset[2],
                                             s.column, s.last - s.first};
    }
    return found;
}

static void pack_row(const struct piece *pieces, int n, int64_t step, const float *x, float *to)
{
    for (int i = 0; i < CONVND_BLOCK; i += VF)
        vf_store(to + i, vf_set1(0.0f));
    for (int i = 0; i < n; i++) {
        const float *from = x + pieces[i].from;
        float *dst = to + pieces[i].column;
        const int64_t count = pieces[i].count;
        int64_t j = 0;
        if (step == 1) {
            for (; j + VF <= count; j += VF)
                vf_store(dst + j, vf_load(from + j));
            if (j < count)
                vf_store_n(dst + j, vf_load_n(from + j, count - j, 0.0f), count - j);
            continue;
        }
        for (; step == 2 && j + VF <= count; j += VF)
            vf_store(dst + j, vf_load_even(from + 2 * j));
        for (; j < count; j++)
            dst[j] = from[j * step];
    }
}

/* An item under way. */
struct block {
    struct atc_meter meter;
    struct convnd_item item;
    int n;
    struct convnd_segment segments[CONVND_BLOCK];
    float *y;        /* the group's first channel */
    int64_t results; /* of a channel */
    float *packed, *sums;
    bool in_place; /* sums are added up in the results, not beside them */
    bool is_begun; /* the results have at least the bias */
};

static float bias_of(const struct block *b, int64_t channel)
{
    const struct convnd_params *p = b->meter.args->params;
    const float *bias = b->meter.args->src[CONVND_BIAS];
    return bias == NULL ? 0.0f : bias[b->item.group * p->mg + channel];
}

/* Moves sums of some channels from or to the results, which may lie apart. */
static void exchange_sums(struct block *b, float *y, int64_t rows, bool store)
{
    const int64_t step = b->item.step[2];
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < b->n; i++) {
            const struct convnd_segment *s = b->segments + i;
            float *sums = b->sums + r * CONVND_BLOCK + s->column, *at = y + r * b->results + s->y;
            const int64_t count = s->last - s->first;
            if (step == 1)
                memcpy(store ? at : sums, store ? sums : at, (size_t)count * sizeof *at);
            else if (store)
                for (int64_t j = 0; j < count; j++)
                    at[j * step] = sums[j];
            else
                for (int64_t j = 0; j < count; j++)
                    sums[j] = at[j * step];
        }
}

/* Brings what some channels from `m` on have so far. */
static void load_sums(struct block *b, float *y, int64_t m, int64_t rows)
{
    if (b->is_begun) {
        exchange_sums(b, y, rows, false);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < CONVND_BLOCK; i += VF)
            vf_store(b->sums + r * CONVND_BLOCK + i, vf_set1(bias_of(b, m + r)));
}

/* Adds some taps to all channels of the group. */
static void add_taps(struct block *b, struct tile tile)
{
    const struct convnd_params *p = b->meter.args->params;
    const int64_t count = b->item.end - b->item.begin;
    const float *columns = tile.b, *weights = tile.w;
    for (int64_t m = 0; m < p->mg && !atc_spend(&b->meter, CONVND_MAX_ROWS * tile.taps);
         m += MAX_ROWS) {
        const int64_t rows = min_i64(MAX_ROWS, p->mg - m);
        float *y = b->y + m * b->results;
        tile.y = b->in_place ? y + b->item.begin : b->sums;
        tile.y_row = b->in_place ? b->results : CONVND_BLOCK;
        tile.w = weights + m * tile.w_row;
        if (!b->in_place)
            load_sums(b, y, m, rows);
        for (int64_t column = 0; column < count; column += COLUMNS) {
            tile.b = columns + column;
            run_rows(&tile, rows);
            tile.y += COLUMNS;
        }
        if (!b->in_place)
            exchange_sums(b, y, rows, true);
    }
    b->is_begun = true;
}

/* Packs the listed taps of channel after channel and adds them. */
static void run_taps(struct block *b, const struct tap *taps, int64_t n)
{
    const struct kernel_args *args = b->meter.args;
    const struct convnd_params *p = args->params;
    const struct convnd_item *item = &b->item;
    const int64_t volume = p->in[0] * p->in[1] * p->in[2];
    const int64_t kernel = p->kernel[0] * p->kernel[1] * p->kernel[2];
    const int64_t c_weights = (p->transposed ? p->mg : 1) * kernel;
    const float *x = (const float *)args->src[CONVND_X] +
                     (item->image * p->group + item->group) * p->cg * volume;
    /* With one tap and nothing between windows, the volumes are rows of that kind. */
    const bool is_packed = kernel == 1 && volume == b->results && p->stride[0] == 1 &&
                           p->stride[1] == 1 && p->stride[2] == 1 && p->pad[0] == 0 &&
                           p->pad[1] == 0 && p->pad[2] == 0 &&
                           item->end - item->begin == CONVND_BLOCK;
    int64_t at[CONVND_KC];
    struct piece pieces[CONVND_BLOCK];
    struct tile tile = {
        .w = (const float *)args->src[CONVND_W] + item->group * p->mg * p->cg * kernel,
        .w_row = (p->transposed ? 1 : p->cg) * kernel,
        .at = at,
    };
    const int64_t step = CONVND_KC / n;
    for (int64_t c = 0, next; c < p->cg && !atc_spend(&b->meter, CONVND_BLOCK); c = next) {
        next = min_i64(p->cg, c + step);
        tile.taps = (next - c) * n;
        for (int64_t k = 0; k < tile.taps; k++)
            at[k] = (c + k / n) * c_weights + taps[k % n].index;
        if (is_packed) {
            tile.b = x + c * volume + item->begin;
            tile.b_row = volume;
        } else {
            tile.b = b->packed;
            tile.b_row = CONVND_BLOCK;
            for (int64_t t = 0; t < n && !atc_spend(&b->meter, CONVND_BLOCK * (next - c)); t++) {
                const int found = find_pieces(p, item, b->segments, b->n, taps + t, pieces);
                for (int64_t i = c; i < next; i++)
                    pack_row(pieces, found, item->x_step[2], x + i * volume,
                             b->packed + ((i - c) * n + t) * CONVND_BLOCK);
            }
        }
        add_taps(b, tile);
    }
}

static void fill_with_bias(struct block *b)
{
    const struct convnd_params *p = b->meter.args->params;
    for (int64_t m = 0; m < p->mg && !atc_spend(&b->meter, CONVND_BLOCK); m++) {
        const float value = bias_of(b, m);
        for (int i = 0; i < b->n; i++) {
            const struct convnd_segment *s = b->segments + i;
            float *y = b->y + m * b->results + s->y;
            for (int64_t j = 0; j < s->last - s->first; j++)
                y[j * b->item.step[2]] = value;
        }
    }
}

void FOR_ISA(convnd_windows_f32)(const struct kernel_args *args)
{
    const struct convnd_params *p = args->params;
    const int64_t kernel = p->kernel[0] * p->kernel[1] * p->kernel[2];
    struct block b = {
        .meter.args = args, .results = p->out[0] * p->out[1] * p->out[2], .packed = args->scratch};
    b.sums = b.packed + CONVND_KC * CONVND_BLOCK;
    struct tap taps[CONVND_KC];
    for (int64_t number = args->begin; number < args->end; number++) {
        b.item = convnd_find_item(p, number);
        b.n = convnd_cut(p, &b.item, b.segments);
        b.y = (float *)args->dst[0] + (b.item.image * p->group + b.item.group) * p->mg * b.results;
        b.in_place = !p->transposed && b.item.end - b.item.begin == CONVND_BLOCK;
        b.is_begun = b.in_place;
        if (b.in_place)
            fill_with_bias(&b);
        for (int64_t next = 0; b.n > 0 && next < kernel && !atc_was_stopped(args);) {
            const int64_t n = list_taps(&b.meter, &b.item, &next, taps);
            if (n > 0)
                run_taps(&b, taps, n);
        }
        if (!b.is_begun)
            fill_with_bias(&b);
    }
}
