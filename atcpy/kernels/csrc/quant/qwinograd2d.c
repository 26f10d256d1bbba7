/* The qwinograd2d family: its checker, its blocking, and the loops around transforms and products.
 */
#include "quant/qwinograd2d.h"

#include "conv/tile_positions.h"
#include "core/pieces.h"

#include <string.h>

enum {
    MAX_CHANNELS = 1 << 12, /* that one micro-kernel call multiplies */
    FILTERS = QWINO_TAPS * QWINO_TAPS * QGEMM_PANEL *
        QGEMM_PANEL,      /* bytes, from 16 channels to a panel */
    ITEMS_PER_THREAD = 2, /* each thread transforms the filters or the inputs of all its items */
    GOOD_CHUNK = 49,      /* less, and transforms of filters take longer than reads from L3 */
    MIN_CHUNK = 14,       /* less, and they take longer than the products */
    MAX_KEPT = 3,         /* times L2: more take as long to read as to transform */
    MAX_KEPT_PAIRS = 64,  /* bits of a word */
    FETCHED_AHEAD = 8,    /* tiles whose inputs are */
};

struct qgemm_params qwinograd2d_definition(const struct qwinograd2d_params *p)
{
#define COPY(name)                 .name = p->name,
#define COPY_CHOICE(name, choices) .name = p->name,
    return (struct qgemm_params){.kh = QWINO_TAPS,
                                 .kw = QWINO_TAPS,
                                 .sh = 1,
                                 .sw = 1,
                                 .dh = 1,
                                 .dw = 1,
                                 .group = 1,
                                 .cg = p->c,
                                 .mg = p->m,
                                 .src_c0 = QGEMM_PANEL,
                                 .k_c0 = QGEMM_PANEL,
                                 .dst_c0 = QGEMM_PANEL,
                                 .w_packed = 1,
                                 QWINOGRAD2D_SIZES(COPY) QGEMM_TYPES(COPY, COPY_CHOICE)
                                     QGEMM_ADDENDS(COPY, COPY)};
#undef COPY
#undef COPY_CHOICE
}

/* Whether tiles gain less than 1.02: the estimate of ops/quant/qwinograd.py, in quarters of the
 * time of 64 products of the definition, which are one instruction.
 */
static bool falls_back(const struct qwinograd2d_params *p, const struct atc_cpu *cpu)
{
#ifdef ATC_ARM64
    /* A dot product of NEON has four times the products of a multiplication of 16 bits, and no
     * transforms.
     */
    if (cpu->isa >= ISA_NEONDOT)
        return true;
#else
    (void)cpu;
#endif
    enum {
        PRODUCTS = 4 * 18,    /* of a tile, for a channel and a panel */
        OF_FILTERS = 4 * 150, /* of a channel and a panel */
        OF_INPUTS = 4 * 180,  /* of a tile of a block of channels */
        OF_RESULTS = 4 * 280, /* of a tile of a panel */
        OF_CHUNK = 49,    /* tiles for which filters are transformed once, if they are not kept */
        KEPT = 128 * 128, /* so many filters are kept at most */
        GAIN = 102,       /* in hundredths */
    };
    if (p->falls_back == 0)
        return false;
    const int64_t c1 = p->c / QGEMM_PANEL, panels = ceil_div(p->m, QGEMM_PANEL);
    const int64_t filters = atc_mul(p->c, panels), results = atc_mul(p->n, atc_mul(p->oh, p->ow));
    const int64_t tiles =
        atc_mul(p->n, atc_mul(ceil_div(p->oh, QWINO_TILE), ceil_div(p->ow, QWINO_TILE)));
    const int64_t runs = atc_mul(p->c, p->m) <= KEPT ? 1 : ceil_div(tiles, OF_CHUNK);
    const int64_t each = atc_add(atc_mul(tiles, PRODUCTS), atc_mul(runs, OF_FILTERS));
    const int64_t borders = atc_mul(tiles, atc_add(OF_INPUTS * c1, OF_RESULTS * panels));
    const int64_t direct = atc_mul(filters, atc_mul(results, QWINO_TAPS * QWINO_TAPS));
    return atc_mul(direct, 100) < atc_mul(atc_add(atc_mul(filters, each), borders), GAIN);
}

static const char *check(const struct task_view *task)
{
    const struct qwinograd2d_params *p = task->params;
    const struct qgemm_params params = qwinograd2d_definition(p);
    struct task_view direct = *task;
    direct.params = &params;
    const char *problem = qgemm_problem(&direct);
    if (problem != NULL)
        return problem;
    if (p->falls_back != 0 && p->falls_back != 1)
        return "falls_back is neither 0 nor 1";
    if (p->result == QGEMM_F32)
        return "results in float32";
    return p->c % QGEMM_PANEL != 0 || p->c > MAX_CHANNELS
               ? "channels are not whole blocks, or too many"
               : NULL;
}

static int64_t products(const void *params)
{
    const struct qgemm_params direct = qwinograd2d_definition(params);
    return qgemm_products(&direct);
}

/* How the work is cut: an item is a pair of panels of a chunk of tiles, which are numbered through
 * rows and pictures. The transformed inputs and the sums of a chunk stay in L2, where enough of
 * them fit, while all panels pass over them. Where all transformed filters together are few, a
 * thread keeps them for the chunks that follow.
 */
struct blocking {
    struct tile_grid grid;
    int64_t tiles;         /* of all pictures */
    int64_t chunk, chunks; /* tiles of a chunk, and how many of them there are */
    int64_t c1, groups;    /* blocks of input channels, and groups of two */
    int64_t panels, pairs;
    bool keeps_filters;
    int64_t input_stride, filter_stride; /* numbers from one position to the next */
};

static struct blocking block(const struct qwinograd2d_params *p, const struct atc_cpu *cpu)
{
    struct blocking b = {
        .grid = {ceil_div(p->oh, QWINO_TILE), ceil_div(p->ow, QWINO_TILE)},
        .c1 = p->c / QGEMM_PANEL,
        .groups = ceil_div(p->c, QWINO_GROUP),
        .panels = ceil_div(p->m, QGEMM_PANEL),
    };
    b.pairs = ceil_div(b.panels, QWINO_BLOCKS);
    b.tiles = p->n * b.grid.rows * b.grid.columns;
    const int64_t input_bytes = b.groups * QWINO_GROUP * (int64_t)sizeof(int16_t);
    const int64_t sum_bytes = QWINO_BLOCKS * QGEMM_PANEL * (int64_t)sizeof(int32_t);
    const int64_t items = cpu->threads > 1 ? ITEMS_PER_THREAD * (int64_t)cpu->threads : 1;
    b.chunk = cpu->l2_bytes / 2 / (QWINO_POSITIONS * (input_bytes + sum_bytes));
    if (b.chunk < GOOD_CHUNK)
        b.chunk = GOOD_CHUNK;
    b.chunk = min_i64(b.chunk, ceil_div(b.tiles, ceil_div(items, b.pairs)));
    if (b.chunk < MIN_CHUNK)
        b.chunk = MIN_CHUNK;
    b.chunk = ceil_div(b.tiles, ceil_div(b.tiles, b.chunk));
    b.chunks = ceil_div(b.tiles, b.chunk);

    /* Odd numbers of cache lines, so that positions do not share the sets of a cache. */
    b.input_stride = (b.groups * b.chunk | 1) * QWINO_GROUP;
    b.filter_stride = (QWINO_BLOCKS * p->c / 2 + 1) * QWINO_GROUP;
    const int64_t pair_bytes = QWINO_POSITIONS * b.filter_stride * (int64_t)sizeof(int16_t);
    b.keeps_filters = b.chunks > 1 && b.pairs <= MAX_KEPT_PAIRS &&
                      b.pairs <= MAX_KEPT * cpu->l2_bytes / pair_bytes;
    return b;
}

/* What the scratch holds: numbers of each kind. */
struct scratch {
    int64_t inputs, filters, sums;
};

static struct scratch scratch_of(const struct blocking *b)
{
    return (struct scratch){
        .inputs = b->input_stride * QWINO_POSITIONS,
        .filters = b->filter_stride * QWINO_POSITIONS * (b->keeps_filters ? b->pairs : 1),
        .sums = b->chunk * QWINO_POSITIONS * QWINO_BLOCKS * QGEMM_PANEL,
    };
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    const struct qwinograd2d_params *p = params;
    if (falls_back(p, cpu)) {
        const struct qgemm_params direct = qwinograd2d_definition(p);
        return qgemm_cost(&direct, cpu);
    }
    const struct blocking b = block(p, cpu);
    const struct scratch r = scratch_of(&b);
    const int64_t items = atc_mul(b.chunks, b.pairs);
    /* As qgemm counts: twice for 64 bytes. What is in the scratch is computed once an item. */
    enum { TRANSFORM = 16 };
    const int64_t transforms =
        r.inputs + b.filter_stride * QWINO_POSITIONS + r.sums * (QWINO_GROUP / QGEMM_PANEL);
    const int64_t multiplied = b.chunk * p->c * (QWINO_POSITIONS * QWINO_BLOCKS);
    return (struct kernel_cost){
        .items = items,
        .work = atc_mul(items, multiplied + transforms / QWINO_GROUP * TRANSFORM),
        .scratch =
            (r.inputs + r.filters) * (int64_t)sizeof(int16_t) + r.sums * (int64_t)sizeof(int32_t)};
}

DEFINE_FAMILY(qwinograd2d, QWINOGRAD2D_FIELDS, .check = check, .cost = cost, .products = products,
              .inplace = 1u << QGEMM_ADDEND);

/* --- the loops ------------------------------------------------------------------------------- */

struct drive {
    const struct qwinograd2d_params *p;
    struct qgemm_params direct; /* the same task of qgemm */
    const struct kernel_args *args;
    const struct qwino_isa *isa;
    struct blocking b;
    struct atc_meter meter;
    int16_t *inputs;  /* [positions][groups][chunk][32] */
    int16_t *filters; /* of a pair of panels, or of each: [positions][2][c/2][16][2] */
    int32_t *sums;    /* [positions][2][chunk][16] */
    int16_t x_zero;
    int32_t y_zero;
    struct qgemm_sum sum;
};

/* A tile of a chunk in two blocks of channels. */
struct cursor {
    int64_t group, tile;
    struct tile_position at;
};

/* Goes through the tiles of a chunk group by group. */
static void advance(const struct drive *d, int64_t first, int64_t tiles, struct cursor *c)
{
    next_tile(&d->b.grid, &c->at);
    if (++c->tile < tiles)
        return;
    *c = (struct cursor){c->group + 1, 0, tile_position_of(&d->b.grid, first)};
}

static struct qwino_input input_at(const struct drive *d, const struct cursor *c)
{
    const struct qwinograd2d_params *p = d->p;
    const int64_t row_bytes = p->w * QGEMM_PANEL, plane = p->h * row_bytes;
    const int64_t row = c->at.row * QWINO_TILE - p->pt, column = c->at.column * QWINO_TILE - p->pl;
    const int64_t c1 = 2 * c->group;
    struct qwino_input tile = {
        .x = (const uint8_t *)d->args->src[QGEMM_X] + (c->at.n * d->b.c1 + c1) * plane,
        .row = row_bytes,
        .plane = plane,
        .blocks = (int)min_i64(2, d->b.c1 - c1),
        .is_signed = p->x_signed == 1,
        .zero = d->x_zero,
    };
    find_inside(row, QWINO_IN, p->h, &tile.top, &tile.bottom);
    find_inside(column, QWINO_IN, p->w, &tile.left, &tile.right);
    if (tile.top < tile.bottom && tile.left < tile.right) /* near the picture at least */
        tile.from = row * row_bytes + column * QGEMM_PANEL;
    return tile;
}

/* Fetches a tile's own part of the inputs, a line of four pixels a row. */
static void prefetch(const struct qwino_input *tile)
{
    for (int block = 0; block < tile->blocks; block++)
        for (int64_t row = 1; row <= QWINO_TILE; row++)
            __builtin_prefetch(tile->x + tile->from + block * tile->plane + row * tile->row +
                               QGEMM_PANEL);
}

static void transform_inputs(struct drive *d, int64_t first, int64_t tiles)
{
    const struct blocking *b = &d->b;
    const struct cursor start = {.at = tile_position_of(&b->grid, first)};
    struct cursor ahead = start, at = start;
    for (int i = -FETCHED_AHEAD; at.group < b->groups; i++, advance(d, first, tiles, &ahead)) {
        if (ahead.group < b->groups) {
            const struct qwino_input next = input_at(d, &ahead);
            prefetch(&next);
        }
        if (i < 0)
            continue;
        if (atc_spend(&d->meter, QWINO_GROUP * QGEMM_PANEL))
            return;
        const struct qwino_input tile = input_at(d, &at);
        d->isa->input(&tile, d->inputs + (at.group * b->chunk + at.tile) * QWINO_GROUP,
                      b->input_stride);
        advance(d, first, tiles, &at);
    }
}

static int16_t *filters_of(const struct drive *d, int64_t pair)
{
    return d->filters + (d->b.keeps_filters ? pair : 0) * QWINO_POSITIONS * d->b.filter_stride;
}

static int64_t panel_bytes(const struct drive *d)
{
    return d->b.c1 * FILTERS + QGEMM_BLOCK;
}

static const uint8_t *panel_at(const struct drive *d, int64_t panel)
{
    return (const uint8_t *)d->args->src[QGEMM_W] + panel * panel_bytes(d);
}

/* Columns beyond the last one are not looked at: any zero point will do. */
static int32_t w_zero_at(const struct drive *d, int64_t column)
{
    const struct qwinograd2d_params *p = d->p;
    return qgemm_zero_at(d->args->src[QGEMM_W_ZERO], p->w_zeros, min_i64(column, p->m - 1),
                         p->w_signed == 1);
}

static void transform_filters(struct drive *d, int64_t pair, int64_t blocks)
{
    const struct qwinograd2d_params *p = d->p;
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t panel = pair * QWINO_BLOCKS + block;
        int16_t zero[QWINO_GROUP];
        bool has_zero = false;
        for (int64_t i = 0; i < QWINO_GROUP; i++) {
            zero[i] = (int16_t)w_zero_at(d, panel * QGEMM_PANEL + i / 2);
            has_zero = has_zero || zero[i] != 0;
        }
        /* Those of the panel behind the last one do not exist: the first ones are read then. */
        const uint8_t *w = panel_at(d, panel);
        const uint8_t *after = panel_at(d, panel + 1 < d->b.panels ? panel + 1 : 0);
        int16_t *out = filters_of(d, pair) + block * p->c * QGEMM_PANEL;
        for (int64_t c1 = 0; c1 < d->b.c1; c1++) {
            if (atc_spend(&d->meter, FILTERS))
                return;
            const struct qwino_filters filters = {
                .w = w + c1 * FILTERS,
                .next = c1 + 1 < d->b.c1 ? w + (c1 + 1) * FILTERS : after,
                .is_signed = p->w_signed == 1,
                .zero = has_zero ? zero : NULL,
            };
            d->isa->filters(&filters, out + c1 * QGEMM_PANEL * QGEMM_PANEL, d->b.filter_stride);
        }
    }
}

/* At each position, a matrix of tiles by channels times one of channels by columns. */
static void multiply(struct drive *d, int64_t pair, int64_t blocks, int64_t tiles)
{
    const struct blocking *b = &d->b;
    const qwino_micro *micro = d->isa->micro + (blocks - 1) * d->isa->max_tiles;
    const int64_t calls = ceil_div(tiles, d->isa->max_tiles);
    const int64_t fewest = tiles / calls, longer = tiles % calls;
    struct qwino_product product = {
        .group_stride = b->chunk * QWINO_GROUP,
        .filter_block = d->p->c * QGEMM_PANEL,
        .pairs = d->p->c / 2,
        .sum_block = b->chunk * QGEMM_PANEL,
    };
    for (int64_t position = 0; position < QWINO_POSITIONS; position++) {
        product.inputs = d->inputs + position * b->input_stride;
        product.filters = filters_of(d, pair) + position * b->filter_stride;
        product.sums = d->sums + position * QWINO_BLOCKS * product.sum_block;
        for (int64_t call = 0; call < calls; call++) {
            const int64_t some = fewest + (call < longer);
            if (atc_spend(&d->meter, some * product.pairs))
                return;
            micro[some - 1](&product);
            product.inputs += some * QWINO_GROUP;
            product.sums += some * QGEMM_PANEL;
        }
    }
}

/* What the columns of a panel need, and the middle of the values that each sum can have, with x
 * half way between its limits: sums come without it.
 */
static void fill_columns(const struct drive *d, int64_t panel, struct qgemm_columns *to,
                         int32_t middle[QGEMM_PANEL])
{
    const struct qwinograd2d_params *p = d->p;
    const int64_t first = panel * QGEMM_PANEL, columns = min_i64(QGEMM_PANEL, p->m - first);
    int32_t sums[QGEMM_PANEL];
    memcpy(sums, panel_at(d, panel) + panel_bytes(d) - QGEMM_BLOCK, sizeof sums);
    memset(to, 0, sizeof *to);
    qgemm_fill(to, d->args, (enum qgemm_result)p->result, first, columns, p->w_scales);
    const int64_t products = p->c * (QWINO_TAPS * QWINO_TAPS);
    const int64_t limits = p->x_signed == 1 ? INT8_MIN + INT8_MAX : UINT8_MAX; /* of x, summed */
    for (int64_t i = 0; i < QGEMM_PANEL; i++) {
        const int64_t sum = sums[i] - products * w_zero_at(d, first + i);
        const uint32_t half_way = (uint32_t)((limits - 2 * d->x_zero) * sum / 2);
        to->start[i] = (int32_t)((uint32_t)to->start[i] + half_way);
        middle[i] = (int32_t)(half_way << QWINO_SHIFT);
    }
}

static void finish(struct drive *d, int64_t pair, int64_t blocks, int64_t first, int64_t tiles)
{
    const struct qwinograd2d_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t pixel = QGEMM_PANEL * atc_item_bytes((int)qgemm_result_type(&d->direct));
    const int64_t plane = p->oh * p->ow;
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t panel = pair * QWINO_BLOCKS + block;
        struct qgemm_columns columns;
        int32_t middle[QGEMM_PANEL];
        fill_columns(d, panel, &columns, middle);
        struct qgemm_tile at_first = {
            .args = d->args,
            .columns = &columns,
            .dst_row = pixel,
            .last_columns = QGEMM_PANEL,
            .result = (enum qgemm_result)p->result,
            .y_zero = d->y_zero,
            .sum = &d->sum,
        };
        struct tile_position at = tile_position_of(&b->grid, first);
        for (int64_t t = 0; t < tiles; t++, next_tile(&b->grid, &at)) {
            if (atc_spend(&d->meter, QWINO_GROUP * QGEMM_PANEL))
                return;
            const int64_t row = at.row * QWINO_TILE, column = at.column * QWINO_TILE;
            const int64_t y_at = (at.n * b->panels + panel) * plane + row * p->ow + column;
            at_first.dst = (uint8_t *)d->args->dst[0] + y_at * pixel;
            if (d->args->src[QGEMM_ADDEND] != NULL)
                at_first.addend = (const uint8_t *)d->args->src[QGEMM_ADDEND] + y_at * pixel;
            d->isa->results(&(struct qwino_results){
                .sums = d->sums + (block * b->chunk + t) * QGEMM_PANEL,
                .stride = QWINO_BLOCKS * b->chunk * QGEMM_PANEL,
                .middle = middle,
                .finish = &at_first,
                .rows = min_i64(QWINO_TILE, p->oh - row),
                .columns = min_i64(QWINO_TILE, p->ow - column),
                .dst_row = p->ow * pixel,
            });
        }
    }
}

static void run_item(struct drive *d, int64_t item)
{
    /* Pairs of panels vary fastest, so that neighbouring items share the inputs. */
    const struct blocking *b = &d->b;
    const int64_t pair = item % b->pairs, chunk = item / b->pairs;
    const int64_t first = chunk * b->chunk, tiles = min_i64(b->chunk, b->tiles - first);
    const int64_t blocks = min_i64(QWINO_BLOCKS, b->panels - pair * QWINO_BLOCKS);
    if (!atc_keeps_inputs(d->args, chunk))
        transform_inputs(d, first, tiles);
    uint64_t *kept = d->args->kept + KEPT_WEIGHTS;
    if (!b->keeps_filters || (*kept >> pair & 1) == 0)
        transform_filters(d, pair, blocks);
    if (b->keeps_filters)
        *kept |= UINT64_C(1) << pair;
    multiply(d, pair, blocks, tiles);
    finish(d, pair, blocks, first, tiles);
}

void qwinograd2d_drive(const struct kernel_args *args, const struct qwino_isa *isa)
{
    const struct qwinograd2d_params *p = args->params;
    struct drive d = {
        .p = p,
        .direct = qwinograd2d_definition(p),
        .args = args,
        .isa = isa,
        .meter = {.args = args},
        .inputs = args->scratch,
    };
    if (falls_back(p, args->cpu)) {
        struct kernel_args direct = *args;
        direct.params = &d.direct;
        isa->definition(&direct);
        return;
    }
    d.b = block(p, args->cpu);
    const struct scratch r = scratch_of(&d.b);
    d.filters = d.inputs + r.inputs;
    d.sums = (int32_t *)(void *)(d.filters + r.filters);
    d.x_zero = (int16_t)qgemm_zero_at(args->src[QGEMM_X_ZERO], 1, 0, p->x_signed == 1);
    d.y_zero = qgemm_zero_at(args->src[QGEMM_Y_ZERO], 1, 0, p->result == QGEMM_I8);
    d.sum = qgemm_sum_of(&d.direct, args->src[QGEMM_ADDEND]);
    for (int64_t item = args->begin; item < args->end && !atc_was_stopped(args); item++)
        run_item(&d, item);
}
