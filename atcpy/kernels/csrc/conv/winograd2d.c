/* The winograd2d family: its checker, its blocking, and the loops around transforms and products.
 */
#include "conv/winograd2d.h"

#include "conv/tile_positions.h"

/* Filters are transformed once for so many tiles: the estimate by which ops/conv/winograd.py
 * chooses.
 */
enum { OF_CHUNK = 49 };

static bool is_strided(const struct winograd2d_params *p)
{
    return p->sh == 2;
}

static bool is_small(const struct winograd2d_params *p)
{
    return p->tile == WINO_SMALL && !is_strided(p);
}

/* The products that add up to one sum of a tile: numbers of transformed inputs and filters. */
struct sum {
    int64_t products;
    struct {
        int64_t input, filter;
    } of[4];
};

/* Sum number `position` of a tile. At stride 2 it is, in rows and in columns, one of three: their
 * products are those of one input and filter, or of two.
 */
static struct sum sum_at(const struct winograd2d_params *p, int64_t position)
{
    if (!is_strided(p))
        return (struct sum){1, {{position, position}}};
    static const struct {
        int64_t products, input[2], filter[2];
    } sums[WINO_STRIDED_SUMS] = {{2, {0, 1}, {0, 1}}, {1, {2}, {2}}, {2, {4, 3}, {3, 1}}};
    const int64_t row = position / WINO_STRIDED_SUMS, column = position % WINO_STRIDED_SUMS;
    struct sum sum = {0};
    for (int64_t i = 0; i < sums[row].products; i++)
        for (int64_t j = 0; j < sums[column].products; j++, sum.products++) {
            sum.of[sum.products].input =
                sums[row].input[i] * WINO_STRIDED_IN + sums[column].input[j];
            sum.of[sum.products].filter =
                sums[row].filter[i] * WINO_STRIDED_FILTERS + sums[column].filter[j];
        }
    return sum;
}

/* Whether the definition takes less than 1.2 times as many multiply-adds, or 1.08 at stride 2, as
 * the products of tiles and what the transforms of a block count for: as the compiler decides for
 * known sizes.
 */
static bool falls_back(const struct winograd2d_params *p)
{
    static const struct estimate {
        int64_t products, filters, inputs, results, gain; /* in hundredths */
    } large = {36, 200, 470, 250, 120}, strided = {25, 60, 150, 60, 108};
    if (!p->falls_back)
        return false;
    const struct estimate *of = is_strided(p) ? &strided : &large;
    const int64_t c1 = ceil_div(p->c, CONV_C0), m1 = ceil_div(p->m, CONV_C0);
    const int64_t filters = atc_mul(p->c, m1), results = atc_mul(p->n, atc_mul(p->oh, p->ow));
    const int64_t tiles =
        atc_mul(p->n, atc_mul(ceil_div(p->oh, p->tile), ceil_div(p->ow, p->tile)));
    const int64_t each =
        atc_add(atc_mul(tiles, of->products), atc_mul(ceil_div(tiles, OF_CHUNK), of->filters));
    const int64_t borders = atc_mul(tiles, atc_add(of->inputs * c1, of->results * m1));
    const int64_t direct = atc_mul(filters, atc_mul(results, WINO_TAPS * WINO_TAPS));
    return atc_mul(direct, 100) < atc_mul(atc_add(atc_mul(filters, each), borders), of->gain);
}

/* The same as a task of conv2d. */
static struct conv2d_params definition(const struct winograd2d_params *p)
{
#define COPY(name)                .name = p->name,
#define COPY_CHOICE(name, choices) .name = p->name,
    return (struct conv2d_params){.src_c0 = CONV_C0,
                                  CONV2D_SIZES(COPY) CONV2D_TYPES(COPY_CHOICE)
                                      CONV2D_FINISH(COPY, COPY_CHOICE)};
#undef COPY
#undef COPY_CHOICE
}

static const char *check(const struct task_view *task)
{
    const struct winograd2d_params *p = task->params;
    const char *problem = conv2d_operands_problem(task, CONV_C0, p->weights, CONV2D_ACTIVATIONS(p));
    if (problem != NULL)
        return problem;
    if (p->kh != WINO_TAPS || p->kw != WINO_TAPS || p->sh != p->sw || p->sh > 2 || p->dh != 1 ||
        p->dw != 1 || p->group != 1)
        return "the filters are not of 3x3 at stride 1 or 2 in one group";
    if (p->falls_back != 0 && (p->falls_back != 1 || p->weights == WEIGHTS_BF16_VNNI2))
        return "the definition of other weights, or falls_back is neither 0 nor 1";
    if (p->tile != WINO_LARGE && p->tile != WINO_SMALL)
        return "tiles are neither of 4x4 nor of 2x2 results";
    if (is_strided(p) && (p->tile != WINO_SMALL || p->weights == WEIGHTS_BF16_VNNI2))
        return "stride 2 of large tiles, or of weights in pairs";
    if (is_small(p) && (p->weights != WEIGHTS_BF16_VNNI2 || p->c % 2 != 0))
        return "small tiles of weights that are not in pairs, or of odd channels";
    if (!falls_back(p))
        return NULL;
    const struct conv2d_params params = definition(p);
    struct task_view direct = *task;
    direct.params = &params;
    return conv2d_problem(&direct);
}

bool winograd2d_has_small_tiles(const struct task_view *task)
{
    return is_small(task->params);
}

/* How the work is cut: an item is a pair of output blocks of a chunk of tiles, which are numbered
 * through rows and pictures. The transformed inputs of a chunk stay in L2, where enough of them
 * fit, while all output blocks pass over them. Filters are transformed for a run of input channels,
 * into half of L2: longer runs load and store the sums less often. Where all of them together are
 * few, a thread keeps them for the chunks that follow.
 */
struct blocking {
    int64_t tile, in;              /* results and inputs of a tile in a row */
    int64_t inputs, filters, sums; /* of a tile, for a pair of channels, as they are multiplied */
    struct tile_grid grid;
    int64_t tiles;         /* of all pictures */
    int64_t chunk, chunks; /* tiles of a chunk, and how many of them there are */
    int64_t c1, c1_run;    /* blocks of input channels, and how many of them are summed in a run */
    int64_t runs;
    int64_t oc_pairs;
    bool keeps_filters;
    int64_t input_stride, filter_stride; /* numbers from one position to the next */
};

enum {
    FILTERS = WINO_TAPS * WINO_TAPS * CONV_C0 * CONV_C0, /* floats, from one block to another */
    MATRIX = CONV_C0 * CONV_C0, /* weights of a tap, from one block of channels to another */
    MIN_ITEMS = 8,              /* enough to balance some threads */
    GOOD_CHUNK = 28,            /* less, and transforms of filters take longer than reads from L3 */
    GOOD_STRIDED_CHUNK = 49,    /* of tiles that read fewer inputs, and have fewer results */
    MIN_CHUNK = 14,             /* less, and they take longer than the products */
    MAX_KEPT = 3,               /* times L2: more take as long to read as to transform */
    MAX_KEPT_PAIRS = 64,        /* bits of a word */
};

/* How many transformed factors lie in the room of a float, at best. */
static int64_t best_vnni(const struct winograd2d_params *p)
{
    return is_small(p) ? 2 : 1;
}

static struct blocking block(const struct winograd2d_params *p, const struct atc_cpu *cpu)
{
    struct blocking b = {
        .tile = p->tile,
        .in = is_strided(p) ? WINO_STRIDED_IN : p->tile + WINO_TAPS - 1,
        .grid = {ceil_div(p->oh, p->tile), ceil_div(p->ow, p->tile)},
        .c1 = ceil_div(p->c, CONV_C0),
        .oc_pairs = ceil_div(ceil_div(p->m, CONV_C0), CONV_PAIR),
    };
    b.inputs = b.filters = b.sums = b.in * b.in;
    if (is_strided(p)) {
        b.filters = WINO_STRIDED_FILTERS * WINO_STRIDED_FILTERS;
        b.sums = WINO_STRIDED_SUMS * WINO_STRIDED_SUMS;
    }
    const int64_t vnni = best_vnni(p), bytes = (int64_t)sizeof(float) / vnni;
    b.tiles = p->n * b.grid.rows * b.grid.columns;
    const int64_t tile_bytes = b.inputs * b.c1 * CONV_C0 * bytes;
    const int64_t items = cpu->threads > 1 ? atc_min_items(cpu, MIN_ITEMS) : 1;
    const int64_t for_items = ceil_div(b.tiles, ceil_div(items, b.oc_pairs));
    b.chunk = cpu->l2_bytes / 2 / tile_bytes;
    const int64_t good = is_strided(p) ? GOOD_STRIDED_CHUNK : GOOD_CHUNK;
    if (b.chunk < good)
        b.chunk = good;
    b.chunk = min_i64(b.chunk, for_items);
    if (b.chunk < MIN_CHUNK)
        b.chunk = MIN_CHUNK;
    b.chunk = ceil_div(b.tiles, ceil_div(b.tiles, b.chunk));
    b.chunks = ceil_div(b.tiles, b.chunk);

    const int64_t filter_bytes = b.filters * CONV_PAIR * MATRIX * bytes;
    b.c1_run = conv2d_run_length(b.c1, cpu->l2_bytes / 2 / filter_bytes);
    b.runs = ceil_div(b.c1, b.c1_run);
    /* Odd numbers of cache lines, so that positions do not share the sets of a cache. */
    b.input_stride = (b.c1 * b.chunk | 1) * CONV_C0;
    b.filter_stride = (CONV_PAIR * b.c1_run * CONV_C0 + vnni) * CONV_C0;
    const int64_t run_bytes = b.filters * b.filter_stride * bytes;
    b.keeps_filters = b.chunks > 1 && b.oc_pairs <= MAX_KEPT_PAIRS &&
                      b.oc_pairs <= MAX_KEPT * cpu->l2_bytes / (run_bytes * b.runs);
    return b;
}

/* Numbers in the scratch, each in the room of a float: pairs take half of it. */
struct scratch {
    int64_t inputs, filters, sums;
};

static struct scratch scratch_of(const struct blocking *b)
{
    return (struct scratch){
        .inputs = atc_mul(b->input_stride, b->inputs),
        .filters =
            atc_mul(b->filter_stride, b->filters) * (b->keeps_filters ? b->oc_pairs * b->runs : 1),
        .sums = atc_mul(b->chunk, b->sums * CONV_PAIR * CONV_C0),
    };
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    const struct winograd2d_params *p = params;
    if (falls_back(p)) {
        const struct conv2d_params direct = definition(p);
        return conv2d_cost(&direct, cpu);
    }
    const struct blocking b = block(p, cpu);
    const struct scratch r = scratch_of(&b);
    const int64_t items = atc_mul(b.chunks, b.oc_pairs);
    /* In vectors, as conv2d counts. What is in the scratch is computed once an item, or a run. */
    enum { TRANSFORM = 8 };
    const int64_t filters = atc_mul(atc_mul(b.filter_stride, b.filters), b.runs);
    const int64_t transforms = atc_add(r.inputs, atc_add(filters, r.sums));
    /* Each input is multiplied once. */
    const int64_t multiplied = atc_mul(atc_mul(b.chunk, b.c1 * CONV_C0), b.inputs * CONV_PAIR);
    return (struct kernel_cost){
        .items = items,
        .work = atc_mul(items, atc_add(multiplied, atc_mul(transforms / CONV_C0, TRANSFORM))),
        .scratch = atc_mul(atc_add(atc_add(r.inputs, r.filters), r.sums), sizeof(float))};
}

DEFINE_FAMILY(winograd2d, WINOGRAD2D_FIELDS, .check = check, .cost = cost,
              .products = conv2d_products, .inplace = 1u << CONV_RESIDUAL);

/* --- the loops ------------------------------------------------------------------------------- */

struct drive {
    const struct winograd2d_params *p;
    const struct wino_transforms *transforms;
    const struct conv2d_isa *gemm;
    struct blocking b;
    struct atc_meter *meter;
    const float *x, *bias, *residual; /* x and residual may be bfloat16, as y */
    struct conv2d_weights w;
    int64_t filters_bytes; /* of FILTERS weights */
    float *y;
    int64_t vnni; /* how many of the transformed factors lie in the room of a float */
    int64_t input_stride, filter_stride; /* floats from one position to the next */
    float *inputs;                       /* [inputs][c1][chunk][16 / vnni] */
    float *filters; /* of a run, or of each: [filters][CONV_PAIR][c1_run][16][16 / vnni] */
    float *sums;    /* [sums][CONV_PAIR][chunk][16] */
};

static void transform_inputs(const struct drive *d, int64_t first, int64_t tiles)
{
    static const float zeros[WINO_MAX_IN * CONV_C0];
    const struct winograd2d_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t pixel = conv2d_floats(p->x_type, CONV_C0), plane = p->h * p->w * pixel;
    const struct tile_position start = tile_position_of(&b->grid, first);
    for (int64_t c1 = 0; c1 < b->c1; c1++) {
        struct tile_position at = start;
        for (int64_t t = 0; t < tiles; t++, next_tile(&b->grid, &at)) {
            if (atc_spend(d->meter, MATRIX))
                return;
            const int64_t row = at.row * b->tile * p->sh - p->pt;
            const int64_t column = at.column * b->tile * p->sw - p->pl;
            const float *x = d->x + (at.n * b->c1 + c1) * plane;
            struct wino_input tile = {.is_bf16 = p->x_type == CONV_BF16};
            int64_t top, bottom;
            find_inside(row, b->in, p->h, &top, &bottom);
            find_inside(column, b->in, p->w, &tile.begin, &tile.end);
            for (int64_t r = 0; r < b->in; r++)
                tile.rows[r] = r < top || r >= bottom || tile.begin == tile.end
                                   ? zeros
                                   : x + ((row + r) * p->w + column + tile.begin) * pixel;
            d->transforms->input(&tile, d->inputs + (c1 * b->chunk + t) * (CONV_C0 / d->vnni),
                                 d->input_stride);
        }
    }
}

/* The filters of `blocks` output blocks from `block` on for `length` blocks of input channels from
 * `c1` on, which are transformed and used together.
 */
struct run {
    int64_t block, c1, length;
    int blocks;
    float *transformed;
};

static struct run run_at(const struct drive *d, int64_t block, int64_t c1)
{
    const struct blocking *b = &d->b;
    const int64_t m1 = ceil_div(d->p->m, CONV_C0);
    const int64_t number = block / CONV_PAIR * b->runs + c1 / b->c1_run;
    return (struct run){
        .block = block,
        .c1 = c1,
        .length = min_i64(b->c1_run, b->c1 - c1),
        .blocks = (int)min_i64(CONV_PAIR, m1 - block),
        .transformed = d->filters + (b->keeps_filters ? number : 0) * b->filters * d->filter_stride,
    };
}

/* The run that follows, as long as the items do. */
static struct run run_after(const struct drive *d, const struct run *run)
{
    if (run->c1 + run->length < d->b.c1)
        return run_at(d, run->block, run->c1 + run->length);
    const int64_t pair = run->block / CONV_PAIR + 1;
    return run_at(d, pair < d->b.oc_pairs ? pair * CONV_PAIR : 0, 0);
}

/* The filters for each further block of input channels follow. */
static const uint8_t *filters_of(const struct drive *d, const struct run *run, int64_t block)
{
    return (const uint8_t *)d->w.all +
           ((run->block + block) * d->b.c1 + run->c1) * d->filters_bytes;
}

/* Some filters as they are transformed: where they lie, or widened into the room of `w`. */
static const float *widened(const struct drive *d, const uint8_t *filters, const float *scale)
{
    if (d->w.type == WEIGHTS_F32 || d->vnni == 2)
        return (const float *)filters;
    d->gemm->widen(d->w.type, (const uint16_t *)filters, scale, d->w.widened, FILTERS);
    return d->w.widened;
}

static void transform_filters(const struct drive *d, const struct run *run)
{
    const struct run after = run_after(d, run);
    for (int64_t block = 0; block < run->blocks; block++) {
        float room[CONV_C0];
        const float *scale = conv2d_scale_of(&d->w, run->block + block, room);
        for (int64_t i = 0; i < run->length; i++) {
            if (atc_spend(d->meter, 8 * MATRIX))
                return;
            const uint8_t *filters = filters_of(d, run, block) + i * d->filters_bytes;
            const uint8_t *next = i + 1 < run->length       ? filters + d->filters_bytes
                                  : block + 1 < run->blocks ? filters_of(d, run, block + 1)
                                                            : filters_of(d, &after, 0);
            d->transforms->filters(widened(d, filters, scale), (const float *)next,
                                   run->transformed +
                                       (block * run->length + i) * (MATRIX / d->vnni),
                                   d->filter_stride);
        }
    }
}

/* The filters that are transformed after those of a run. */
static struct conv2d_next next_filters(const struct drive *d, const struct run *run)
{
    const struct run after = run_after(d, run);
    const int64_t bytes = after.blocks * after.length * d->filters_bytes;
    /* Floats of a tile: a micro-kernel prefetches as many as it multiplies. */
    const int64_t each = run->length * MATRIX / d->vnni * (d->b.inputs / d->b.sums);
    return (struct conv2d_next){.first = (const float *)filters_of(d, &after, 0),
                                .stride = each,
                                .tiles = bytes / (each * (int64_t)sizeof(float))};
}

/* Adds the products of a run: for each sum of a tile one or more matrices of tiles by channels,
 * times those of input by output channels, which is a convolution of 1x1 whose taps are the
 * matrices.
 */
static void multiply(const struct drive *d, const struct run *run, int64_t tiles,
                     struct conv2d_next next)
{
    static const float zeros[CONV_PAIR * CONV_C0];
    const struct blocking *b = &d->b;
    const int64_t max_blocks = d->gemm->max_blocks;
    const int64_t step = CONV_C0 / d->vnni, matrix = MATRIX / d->vnni;
    const bool ends = run->c1 + run->length == b->c1;
    const int64_t c_last = ends ? d->p->c - (b->c1 - 1) * CONV_C0 : CONV_C0;
    for (int64_t position = 0; position < b->sums; position++) {
        const struct sum sum = sum_at(d->p, position);
        struct conv2d_tap taps[sizeof sum.of / sizeof *sum.of];
        for (int64_t i = 0; i < sum.products; i++)
            taps[i] = (struct conv2d_tap){sum.of[i].input * d->input_stride,
                                          sum.of[i].filter * d->filter_stride};
        for (int64_t block = 0; block < run->blocks; block += max_blocks) {
            struct conv2d_tile tile = {
                .in = d->inputs + run->c1 * b->chunk * step,
                .taps = taps,
                .n_taps = sum.products,
                .c1_stride = b->chunk * step,
                .n_c1 = run->length,
                .c_last = c_last / d->vnni,
                .weights = run->transformed + block * run->length * matrix,
                .weight_c1 = matrix,
                .weight_stride = run->length * matrix,
                .bias = zeros,
                .dst = d->sums + (position * CONV_PAIR + block) * b->chunk * CONV_C0,
                .dst_step = CONV_C0,
                .dst_stride = b->chunk * CONV_C0,
                .channels = max_blocks * CONV_C0, /* all are written: all are transformed */
                .first = run->c1 == 0,
                .last = ends,
            };
            const int blocks = (int)min_i64(max_blocks, run->blocks - block);
            const struct conv2d_row row = conv2d_cut_row(d->gemm, &tile, step, blocks, tiles);
            conv2d_run_row(d->meter, d->gemm, &tile, &next, &row);
        }
    }
}

static void finish(const struct drive *d, int64_t first, int64_t tiles, int64_t block0, int blocks)
{
    const struct winograd2d_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t m1 = ceil_div(p->m, CONV_C0), plane = p->oh * p->ow;
    const int64_t pixel = conv2d_floats(p->y_type, CONV_C0);
    const int64_t residual_pixel = conv2d_floats(p->residual_type, CONV_C0);
    float bias[CONV_PAIR * CONV_C0];
    conv2d_fill_bias(bias, d->bias, block0 * CONV_C0, p->m);
    for (int block = 0; block < blocks; block++) {
        struct tile_position at = tile_position_of(&b->grid, first);
        for (int64_t t = 0; t < tiles; t++, next_tile(&b->grid, &at)) {
            if (atc_spend(d->meter, MATRIX))
                return;
            const int64_t row = at.row * b->tile, column = at.column * b->tile;
            const int64_t y_at = (at.n * m1 + block0 + block) * plane + row * p->ow + column;
            d->transforms->results(&(struct wino_results){
                .sums = d->sums + (block * b->chunk + t) * CONV_C0,
                .stride = CONV_PAIR * b->chunk * CONV_C0,
                .bias = bias + block * CONV_C0,
                .residual = d->residual ? d->residual + y_at * residual_pixel : NULL,
                .residual_row = p->ow * residual_pixel,
                .dst = d->y + y_at * pixel,
                .dst_row = p->ow * pixel,
                .residual_bf16 = p->residual_type == CONV_BF16,
                .dst_bf16 = p->y_type == CONV_BF16,
                .rows = min_i64(b->tile, p->oh - row),
                .columns = min_i64(b->tile, p->ow - column),
                .activation = (enum activation)p->activation,
                .alpha = (float)p->alpha,
                .beta = (float)p->beta,
            });
        }
    }
}

void winograd2d_drive(const struct kernel_args *args, const struct wino_isa *isa)
{
    const struct winograd2d_params *p = args->params;
    if (falls_back(p)) {
        const struct conv2d_params params = definition(p);
        struct kernel_args direct = *args;
        direct.params = &params;
        conv2d_drive(&direct, isa->gemm);
        return;
    }
    struct atc_meter meter = {.args = args};
    float filters[FILTERS]; /* widened */
    const int64_t vnni = is_small(p) ? isa->gemm->vnni : 1;
    struct drive d = {.p = p,
                      .transforms = is_strided(p) ? isa->strided
                                    : is_small(p) ? isa->small
                                                  : isa->large,
                      .gemm = isa->gemm,
                      .b = block(p, args->cpu),
                      .vnni = vnni,
                      .meter = &meter,
                      .x = args->src[CONV_X],
                      .w = {.args = args,
                            .all = args->src[CONV_W],
                            .type = (enum weight_type)p->weights,
                            .scale = args->src[CONV_SCALE],
                            .m = p->m,
                            .widened = filters},
                      .filters_bytes = FILTERS * weight_bytes(p->weights),
                      .bias = args->src[CONV_BIAS],
                      .residual = args->src[CONV_RESIDUAL],
                      .y = args->dst[0],
                      .inputs = args->scratch};
    const struct blocking *b = &d.b;
    const struct scratch r = scratch_of(b);
    d.filters = d.inputs + r.inputs;
    d.sums = d.filters + r.filters;
    d.input_stride = b->input_stride / vnni;
    d.filter_stride = b->filter_stride / vnni;

    for (int64_t item = args->begin; item < args->end; item++) {
        /* Output blocks vary fastest, so that neighbouring items share the inputs. */
        const int64_t pair = item % b->oc_pairs, chunk = item / b->oc_pairs;
        const int64_t block = pair * CONV_PAIR, first = chunk * b->chunk,
                      tiles = min_i64(b->chunk, b->tiles - first);
        if (!atc_keeps_inputs(args, chunk))
            transform_inputs(&d, first, tiles);
        const bool has_filters = b->keeps_filters && (args->kept[KEPT_WEIGHTS] >> pair & 1) != 0;
        for (int64_t c1 = 0; c1 < b->c1; c1 += b->c1_run) {
            const struct run run = run_at(&d, block, c1);
            struct conv2d_next next = {0};
            if (!has_filters) {
                transform_filters(&d, &run);
                next = next_filters(&d, &run);
            }
            multiply(&d, &run, tiles, next);
        }
        if (b->keeps_filters)
            args->kept[KEPT_WEIGHTS] |= UINT64_C(1) << pair;
        finish(&d, first, tiles, block, run_at(&d, block, 0).blocks);
        if (atc_was_stopped(args))
            return;
    }
}
