/* The loops around qgemm's micro-kernels. */
#include "quant/qgemm_blocking.h"

#include <math.h>
#include <string.h>

enum { FILLED_AHEAD = 4 }; /* panels whose sums are fetched before they are read */

struct drive {
    const struct qgemm_params *p;
    const struct qgemm_isa *isa;
    const struct kernel_args *args;
    struct qgemm_blocking b;
    struct atc_meter meter;
    struct qgemm_source source;
    bool x_signed;      /* x as the ISA reads it */
    uint8_t x_flip;     /* what makes such bytes of x */
    int32_t x_zero;     /* of x as the ISA reads it */
    bool needs_sums;    /* of the rows of x */
    int64_t item_bytes; /* of y */
    int32_t y_zero;
    struct qgemm_sum sum;
    int64_t k1; /* steps that are multiplied */
    uint8_t *copied_x, *packed_w, *ones;
    uint8_t *schedules; /* of kept groups of panels */
    int16_t *wide_w, *wide_x;
    int64_t *steps;
    int32_t *row_sums;
    struct qgemm_columns *columns; /* of kept groups of panels */
    int64_t filled;                /* (weights, group of panels) of the one group kept, or -1 */
    int64_t copied;                /* (n, group, chunk) that copied_x and row_sums hold, or -1 */
    const uint8_t *x;              /* of the first result of the chunk */
};

/* Numbers `first` … of each column, and 0 for columns that are not there; one for all if it is one.
 */
static void take_floats(const float *from, int64_t count, int64_t first, int64_t columns,
                        float to[QGEMM_PANEL])
{
    if (count != 1 && columns == QGEMM_PANEL) {
        memcpy(to, from + first, QGEMM_PANEL * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < QGEMM_PANEL; i++)
        to[i] = i >= columns ? 0 : count == 1 ? *from : from[first + i];
}

void qgemm_fill(struct qgemm_columns *to, const struct kernel_args *args, enum qgemm_result result,
                int64_t first, int64_t columns, int64_t w_scales)
{
    const float *x_scale = args->src[QGEMM_X_SCALE], *w_scale = args->src[QGEMM_W_SCALE];
    const float *y_scale = args->src[QGEMM_Y_SCALE];
    const void *bias = args->src[QGEMM_BIAS];
    if (bias != NULL)
        memcpy(result == QGEMM_F32 ? (void *)to->bias : to->start, (const int32_t *)bias + first,
               (size_t)columns * sizeof(int32_t));
    if (result == QGEMM_I32)
        return;
    /* Loops over whole panels, of which the compiler makes vectors. */
    float scale[QGEMM_PANEL];
    take_floats(w_scale, w_scales, first, columns, scale);
    for (int i = 0; i < QGEMM_PANEL; i++)
        scale[i] = *x_scale * scale[i];
    if (result != QGEMM_F32) {
        int32_t beyond = 0;
        for (int i = 0; i < QGEMM_PANEL; i++)
            scale[i] /= *y_scale;
        for (int i = 0; i < QGEMM_PANEL; i++)
            beyond |= !(fabsf(scale[i]) <= 0.5f); /* NaN too */
        to->is_bounded = beyond == 0;
    }
    memcpy(to->scale, scale, sizeof scale);
}

/* What the columns of a panel need, from its sums and the scales and zero points. */
static void fill_columns(const struct drive *d, int64_t first, int64_t columns,
                         const uint8_t *panel, struct qgemm_columns *to)
{
    const struct qgemm_params *p = d->p;
    const uint32_t products = (uint32_t)(p->cg * p->kh * p->kw);
    int32_t sums[QGEMM_PANEL];
    memcpy(sums, panel + d->b.panel_bytes - QGEMM_BLOCK, sizeof sums);
    memset(to->start, 0, sizeof to->start);
    memset(to->bias, 0, sizeof to->bias);
    to->is_bounded = false;
    qgemm_fill(to, d->args, (enum qgemm_result)p->result, first, columns, p->w_scales);
    const int32_t middle = p->w_signed == 1 ? 0 : 128;
    for (int64_t i = 0; i < QGEMM_PANEL; i++) {
        /* Without sums of rows, every zero point is the middle. */
        const int32_t zero =
            d->needs_sums && i < columns
                ? qgemm_zero_at(d->args->src[QGEMM_W_ZERO], p->w_zeros, first + i, p->w_signed == 1)
                : middle;
        sums[i] = (int32_t)((uint32_t)sums[i] - products * (uint32_t)zero);
        to->w_zero[i] = zero - middle;
    }
    for (int i = 0; i < QGEMM_PANEL; i++)
        to->start[i] = (int32_t)((uint32_t)to->start[i] - (uint32_t)d->x_zero * (uint32_t)sums[i]);
}

/* Addends of a tile where y keeps channels apart. */
static void gather(const struct drive *d, uint8_t *tile, int64_t rows, int64_t columns,
                   int64_t channel, int64_t row)
{
    const uint8_t *addend = d->args->src[QGEMM_ADDEND];
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            tile[i * QGEMM_MAX_BLOCKS * QGEMM_PANEL + j] =
                addend[(channel + j) * d->b.rows + row + i];
}

/* Results of a tile that y keeps apart, one plane a channel. */
static void scatter(const struct drive *d, const uint8_t *tile, int64_t rows, int64_t columns,
                    int64_t channel, int64_t row)
{
    const int64_t item = d->item_bytes, row_bytes = QGEMM_MAX_BLOCKS * QGEMM_PANEL * item;
    uint8_t *y = d->args->dst[0];
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(y + ((channel + j) * d->b.rows + row + i) * item,
                   tile + i * row_bytes + j * item, (size_t)item);
}

/* A position in the work: picture, group of channels, first row, first panel in the group. */
struct position {
    int64_t n, g, row, rows, panel;
    int64_t tile_rows; /* of the tiles of a line */
};

/* Where the tile's first result lies, for all layouts of y but planes. */
static void aim(const struct drive *d, const struct position *at, struct qgemm_tile *tile)
{
    const struct qgemm_params *p = d->p;
    uint8_t *y = d->args->dst[0];
    const int64_t item = d->item_bytes, panel = at->g * p->mg / QGEMM_PANEL + at->panel;
    if (p->dst_c0 == QGEMM_PANEL) {
        const int64_t m1 = ceil_div(p->m, QGEMM_PANEL);
        tile->dst = y + ((at->n * m1 + panel) * d->b.rows + at->row) * QGEMM_PANEL * item;
        tile->dst_row = QGEMM_PANEL * item;
        tile->dst_panel = d->b.rows * QGEMM_PANEL * item;
        tile->last_columns = QGEMM_PANEL;
    } else {
        tile->dst = y + ((at->n * d->b.rows + at->row) * p->m + panel * QGEMM_PANEL) * item;
        tile->dst_row = p->m * item;
        tile->dst_panel = QGEMM_PANEL * item;
    }
    if (d->args->src[QGEMM_ADDEND] != NULL)
        tile->addend = (const uint8_t *)d->args->src[QGEMM_ADDEND] + (tile->dst - y);
}

/* A tile's results and addends, where y keeps the channels apart. */
struct planes {
    uint8_t *y, *addend;
};

/* The columns of y that the panels of a tile make. */
struct tile_columns {
    int64_t width;
    const qgemm_micro *micro;    /* by rows */
    const struct planes *planes; /* NULL where y keeps the channels of a pixel together */
};

/* Calls the micro-kernel for results from `row` of the chunk on, and goes on to those behind. */
static void call_micro(const struct drive *d, const struct position *at,
                       const struct tile_columns *columns, int64_t row, struct qgemm_tile *tile)
{
    const struct planes *planes = columns->planes;
    const int64_t channel = at->n * d->p->m + at->g * d->p->mg + at->panel * QGEMM_PANEL;
    const int64_t rows = tile->tiles * tile->rows;
    if (planes != NULL && planes->addend != NULL)
        gather(d, planes->addend, rows, columns->width, channel, at->row + row);
    const int step = d->isa->row_step; /* 1 mostly: no division a tile */
    columns->micro[step == 1 ? tile->rows - 1 : (tile->rows - 1) / step](tile);
    if (planes != NULL) {
        scatter(d, planes->y, rows, columns->width, channel, at->row + row);
    } else {
        tile->dst += rows * tile->dst_row;
        if (tile->addend != NULL)
            tile->addend += rows * tile->dst_row;
    }
    if (tile->row_sums != NULL)
        tile->row_sums += rows;
}

/* All rows of a chunk, which begins with a line, many tiles a call. */
static void run_lines(struct drive *d, const struct position *at,
                      const struct tile_columns *columns, struct qgemm_tile *tile)
{
    const int64_t line = min_i64(d->b.line, at->rows);
    const int64_t most_rows = tile->wide_w != NULL ? d->isa->max_rows : d->isa->byte_rows;
    const int64_t most = columns->planes != NULL ? 1 : ceil_div(ATC_PIECE, 8 * tile->k1);
    tile->line = line;
    tile->x_line = d->b.x_line;
    for (int64_t row = 0; row < at->rows; row += tile->tiles * tile->rows) {
        const int64_t left = at->rows - row;
        tile->rows = min_i64(most_rows, left);
        tile->tiles = min_i64(left / tile->rows, most);
        if (atc_spend(&d->meter, tile->tiles * 8 * tile->k1))
            return;
        tile->x[0] = d->x + row / line * d->b.x_line + row % line * d->b.x_row;
        tile->in_line = line - row % line;
        call_micro(d, at, columns, row, tile);
        tile->tiles_before += tile->tiles;
    }
}

/* All rows of a chunk, which begins with a line: tiles are as even as may be, of one line or of two
 * short ones.
 */
static void run_tiles(struct drive *d, const struct position *at,
                      const struct tile_columns *columns, struct qgemm_tile *tile)
{
    const int64_t line = min_i64(d->b.line, at->rows), even = at->tile_rows;
    const bool by_two = line == QGEMM_PART_ROWS && d->isa->max_rows >= 2 * line;
    const uint8_t *x = d->x;
    int64_t left = line;
    tile->tiles = 1;
    for (int64_t row = 0; row < at->rows; row += tile->rows) {
        const bool both = by_two && at->rows - row >= 2 * line;
        const int64_t rows = both ? 2 * line : min_i64(even, left);
        if (atc_spend(&d->meter, 8 * tile->k1))
            return;
        tile->x[0] = x;
        tile->x[1] = both                     ? x + d->b.x_line
                     : rows > QGEMM_PART_ROWS ? x + QGEMM_PART_ROWS * d->b.x_row
                                              : x;
        tile->rows = rows;
        call_micro(d, at, columns, row, tile);
        x += both ? 2 * d->b.x_line : rows * d->b.x_row;
        left -= both ? 0 : rows;
        if (left == 0) {
            left = line;
            x += d->b.x_line - line * d->b.x_row;
        }
        tile->next = tile->w;
    }
}

static struct qgemm_tile tile_of(const struct drive *d, const uint8_t *w,
                                 const struct qgemm_columns *columns)
{
    return (struct qgemm_tile){
        .args = d->args,
        .x_row = d->b.x_row,
        .steps = d->steps,
        .x_flip = d->b.flipped ? 0 : d->x_flip * UINT32_C(0x01010101),
        .x_signed = d->x_signed,
        .w = w,
        .w_panel = d->b.panel_bytes,
        .next = w,
        .k1 = d->k1,
        .columns = columns,
    };
}

/* Panels of unsigned bytes are multiplied as signed ones. */
static bool signs_panels(const struct qgemm_params *p)
{
    return p->w_packed == 1 && p->w_signed == 0;
}

static bool is_scheduled(const struct drive *d, const struct position *at)
{
    return d->b.schedules && at->rows >= QGEMM_LEAST_SCHEDULED;
}

/* A group of panels that is kept: its number among those, and whether all is there already. */
struct kept_group {
    int64_t slot;
    bool is_filled;
};

/* All rows of a chunk for the panels of a tile, of which `in_group` lie before in the item's. */
static void run_panels(struct drive *d, const struct position *at, const uint8_t *w, int blocks,
                       int64_t in_group, const struct kept_group *kept)
{
    const struct qgemm_params *p = d->p;
    const int64_t first = at->panel * QGEMM_PANEL;
    const int64_t width = min_i64((int64_t)blocks * QGEMM_PANEL, p->mg - first);
    const uint8_t *next = w + blocks * d->b.panel_bytes;
    if (signs_panels(p)) {
        for (int b = 0; b < blocks; b++)
            qgemm_sign_panel(d->args, w + b * d->b.panel_bytes, d->ones,
                             d->packed_w + b * d->b.panel_bytes);
        w = d->packed_w;
    }
    struct qgemm_tile tile = tile_of(d, w, d->columns + kept->slot * d->b.group + in_group);
    if (p->w_packed == 1 && at->panel + 2 * blocks <= d->b.panels)
        tile.next = next;
    if (is_scheduled(d, at)) {
        const int64_t before = kept->slot * ceil_div(d->b.group, QGEMM_SCHEDULED);
        struct qgemm_schedule *schedule =
            (void *)(d->schedules +
                     (before + in_group / QGEMM_SCHEDULED) * qgemm_schedule_bytes(d->k1));
        const struct qgemm_panels of = {w, d->b.panel_bytes, blocks, d->k1, d->steps};
        if (!kept->is_filled)
            d->isa->schedule(&of, schedule);
        if (schedule->is_wide) {
            d->isa->widen(&of, d->wide_w);
            tile.wide_w = d->wide_w;
            tile.wide_x = d->wide_x;
        }
        if (atc_spend(&d->meter, 16 * d->k1))
            return;
        tile.schedule = schedule;
    }
    tile.all_rows = at->rows;
    tile.row_sums = d->needs_sums ? d->row_sums : NULL;
    tile.last_columns = width - (blocks - 1) * QGEMM_PANEL;
    tile.result = (enum qgemm_result)p->result;
    tile.y_zero = d->y_zero;
    uint8_t results[QGEMM_MAX_TILE_ROWS * QGEMM_MAX_BLOCKS * QGEMM_PANEL * 4];
    uint8_t addends[QGEMM_MAX_TILE_ROWS * QGEMM_MAX_BLOCKS * QGEMM_PANEL];
    const bool apart = p->dst_c0 == 1, adds = d->args->src[QGEMM_ADDEND] != NULL;
    const struct planes planes = {results, adds ? addends : NULL};
    tile.sum = &d->sum;
    if (apart) {
        tile.dst = results;
        tile.addend = planes.addend;
        tile.dst_row = QGEMM_MAX_BLOCKS * QGEMM_PANEL * d->item_bytes;
        tile.dst_panel = QGEMM_PANEL * d->item_bytes;
    } else {
        aim(d, at, &tile);
    }
    const qgemm_micro *micro = d->isa->micro + (blocks - 1) * d->isa->max_rows / d->isa->row_step;
    const struct tile_columns columns = {width, micro, apart ? &planes : NULL};
    if (d->isa->takes_lines)
        run_lines(d, at, &columns, &tile);
    else
        run_tiles(d, at, &columns, &tile);
}

/* The sums of a chunk's rows of x, as the ISA reads it. */
static void sum_rows(struct drive *d, const struct position *at)
{
    const struct qgemm_params *p = d->p;
    const int64_t line = min_i64(d->b.line, at->rows);
    const uint8_t flip = p->x_signed == 1 && !d->b.flipped ? 0x80 : 0;
    const uint32_t count = (uint32_t)(p->cg * p->kh * p->kw);
    const uint32_t added = d->x_signed ? 128 * count : 0;
    for (int64_t row = 0; row < at->rows && !atc_spend(&d->meter, d->k1); row++) {
        const uint8_t *x = d->x + row / line * d->b.x_line + row % line * d->b.x_row;
        const uint32_t sum = qgemm_sum_row(d->args, x, d->steps, d->k1, d->ones, flip);
        d->row_sums[row] = (int32_t)(sum - added);
    }
}

/* Copies pixels of all blocks of channels, which are the rows of a matrix. */
static void copy_pixels(struct drive *d, const struct position *at)
{
    const struct qgemm_params *p = d->p;
    const int64_t bytes = at->rows * 16, c1 = ceil_div(p->c, 16), plane = d->b.rows * 16;
    const uint8_t *x = d->source.x + at->n * c1 * plane + at->row * 16;
    for (int64_t block = 0; block < c1 && !atc_spend(&d->meter, at->rows); block++)
        atc_copy(d->args, d->copied_x + block * d->b.plane, x + block * plane, bytes);
}

/* Gives all that is copied the sign that the ISA multiplies. */
static void flip_copy(const struct drive *d)
{
    uint8_t *x = d->copied_x;
    const uint8_t flip = d->x_flip;
    for (struct atc_piece piece = {0}; atc_next_piece(d->args, &piece, d->b.x_bytes);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            x[i] ^= flip;
}

/* Points to what the chunk reads, copied if need be, and sums up its rows if zero points need that,
 * unless an earlier call of the thread has done both.
 */
static void take_x(struct drive *d, const struct position *at, bool is_prepared)
{
    const struct qgemm_params *p = d->p;
    const struct qgemm_blocking *b = &d->b;
    const int64_t c0 = p->src_c0, c1 = ceil_div(p->c, c0);
    const int64_t line = at->row / b->line, column = at->row % b->line;
    if (b->copied)
        d->x = d->copied_x;
    else
        d->x = d->source.x + (at->n * c1 + at->g * p->cg / c0) * p->h * p->w * c0 +
               line * b->x_line + column * b->x_row;
    if (is_prepared)
        return;
    if (b->copied && qgemm_has_pixels_as_rows(p)) {
        copy_pixels(d, at);
    } else if (b->copied && b->reading == QGEMM_PICTURE) {
        const struct qgemm_picture part = {.y = line * p->sh - p->pt,
                                           .x = -p->pl,
                                           .rows = qgemm_input_rows(p, at->rows / b->line),
                                           .columns = qgemm_input_columns(p),
                                           .plane = b->plane};
        qgemm_copy_picture(&d->source, at->n, at->g, &part, d->copied_x);
    } else if (b->copied) {
        qgemm_pack_rows(&d->source, at->n, at->g, at->row, at->rows, d->copied_x, b->row_bytes);
    }
    if (b->flipped)
        flip_copy(d);
    if (d->needs_sums)
        sum_rows(d, at);
}

static const uint8_t *pack_w(struct drive *d, int64_t n, int64_t first, int64_t end)
{
    const struct qgemm_params *p = d->p;
    const uint8_t *w =
        (const uint8_t *)d->args->src[QGEMM_W] + (p->w_batched == 1 ? n * p->cg * p->m : 0);
    for (int64_t panel = first; panel < end && !atc_spend(&d->meter, p->cg); panel++)
        qgemm_pack_panel(d->args, w, panel, d->packed_w + (panel - first) * d->b.panel_bytes);
    return d->packed_w;
}

/* Columns of panels [first, end) of a group of channels. */
static void fill_group(struct drive *d, const struct position *at, int64_t first, int64_t end,
                       const uint8_t *w, struct qgemm_columns *to)
{
    const struct qgemm_params *p = d->p;
    const uint8_t *sums = w + d->b.panel_bytes - QGEMM_BLOCK;
    for (int64_t i = first; i < end && !atc_spend(&d->meter, 4 * QGEMM_PANEL); i++) {
        const int64_t column = i * QGEMM_PANEL;
        if (i + FILLED_AHEAD < end) /* a line that nothing else has fetched */
            __builtin_prefetch(sums + (i - first + FILLED_AHEAD) * d->b.panel_bytes);
        fill_columns(d, at->g * p->mg + column, min_i64(QGEMM_PANEL, p->mg - column),
                     w + (i - first) * d->b.panel_bytes, to + i - first);
    }
}

/* Rows of the tiles of a line of results, which are as even as may be. */
static int64_t even_rows(const struct qgemm_isa *isa, int64_t line)
{
    const int64_t rows = ceil_div(line, ceil_div(line, isa->max_rows));
    return ceil_div(rows, isa->row_step) * isa->row_step;
}

static bool keeps_all_groups(const struct drive *d)
{
    return d->b.kept_groups == qgemm_all_groups(d->p, &d->b);
}

static struct kept_group find_kept(const struct drive *d, int64_t weights)
{
    if (!keeps_all_groups(d))
        return (struct kept_group){0, d->filled == weights};
    return (struct kept_group){weights, (d->args->kept[KEPT_WEIGHTS] >> weights & 1) != 0};
}

static void note_kept(struct drive *d, int64_t weights)
{
    if (keeps_all_groups(d))
        d->args->kept[KEPT_WEIGHTS] |= UINT64_C(1) << weights;
    d->filled = weights;
}

static void run_item(struct drive *d, int64_t item)
{
    const struct qgemm_params *p = d->p;
    const struct qgemm_blocking *b = &d->b;
    /* Groups of panels vary fastest: a call with several items has the same rows in them. */
    const int64_t part = item % b->groups, chunk = item / b->groups;
    const int64_t picture = chunk / b->chunks;
    struct position at = {
        .n = picture / p->group, .g = picture % p->group, .row = chunk % b->chunks * b->chunk_rows};
    at.rows = min_i64(b->chunk_rows, b->rows - at.row);
    at.tile_rows = even_rows(d->isa, min_i64(b->line, at.rows));
    const int64_t first = part * b->group, end = min_i64(first + b->group, b->panels);
    if (d->isa->begin_rows != NULL)
        d->isa->begin_rows(at.rows);
    if (d->copied != chunk)
        take_x(d, &at, atc_keeps_inputs(d->args, chunk));
    d->copied = chunk;
    const uint8_t *w = p->w_packed == 1 ? (const uint8_t *)d->args->src[QGEMM_W] +
                                              (at.g * b->panels + first) * b->panel_bytes
                                        : pack_w(d, at.n, first, end);
    const int64_t weights = (p->w_batched == 1 ? at.n : at.g) * b->groups + part;
    const struct kept_group kept = find_kept(d, weights);
    if (!kept.is_filled)
        fill_group(d, &at, first, end, w, d->columns + kept.slot * b->group);
    for (at.panel = first; at.panel < end && !atc_spend(&d->meter, 1);
         at.panel += d->isa->max_blocks) {
        const int blocks = (int)min_i64(d->isa->max_blocks, end - at.panel);
        run_panels(d, &at, w + (at.panel - first) * b->panel_bytes, blocks, at.panel - first,
                   &kept);
    }
    if (!b->schedules || is_scheduled(d, &at))
        note_kept(d, weights);
    else
        d->filled = -1;
}

static bool any_zero(const struct drive *d)
{
    for (int64_t i = 0; i < d->p->w_zeros; i++)
        if (qgemm_zero_at(d->args->src[QGEMM_W_ZERO], d->p->w_zeros, i, d->p->w_signed == 1) !=
            (d->p->w_signed == 1 ? 0 : 128))
            return true;
    return false;
}

/* Where each step of k lies behind what a result reads first. */
static void fill_steps(struct drive *d)
{
    const struct qgemm_params *p = d->p;
    const struct qgemm_blocking *b = &d->b;
    int64_t *to = d->steps;
    if (b->reading != QGEMM_PICTURE) {
        const int64_t k1 = qgemm_k1(p);
        for (struct atc_piece piece = {0}; atc_next_piece(d->args, &piece, k1);)
            for (int64_t k = piece.begin; k < piece.end; k++)
                to[k] = k * QGEMM_K0;
        return;
    }
    for (int64_t block = 0; block < ceil_div(p->cg, p->k_c0); block++)
        for (int64_t y = 0; y < p->kh && !atc_spend(&d->meter, p->kw); y++) {
            int64_t at = block * b->plane + y * p->dh * b->pitch;
            for (int64_t x = 0; x < p->kw; x++, at += p->dw * p->k_c0)
                for (int64_t c = 0; c < p->k_c0; c += QGEMM_K0)
                    *to++ = at + c;
        }
}

struct qgemm_sum qgemm_sum_of(const struct qgemm_params *p, const void *addend)
{
    if (addend == NULL)
        return (struct qgemm_sum){0};
    return (struct qgemm_sum){
        .product_scale = (float)p->product_scale,
        .addend_scale = (float)p->addend_scale,
        .offset = (float)p->sum_offset,
        .zero = (int32_t)p->sum_zero,
    };
}

void qgemm_drive(const struct kernel_args *args, const struct qgemm_isa *isa)
{
    const struct qgemm_params *p = args->params;
    struct drive d = {.p = p,
                      .isa = isa,
                      .args = args,
                      .b = qgemm_block(p, args->cpu),
                      .meter = {.args = args},
                      .filled = -1,
                      .copied = -1};
    const bool is_signed = p->x_signed == 1;
    d.x_signed = isa->signs == QGEMM_ANY_X ? is_signed : isa->signs == QGEMM_SIGNED_X;
    d.x_flip = d.x_signed == is_signed ? 0 : 0x80;
    if (isa->schedule == NULL) { /* another row than the CPU's */
        d.b.schedules = false;
        d.b.flipped = false;
    }
    const uint8_t *x_zero = args->src[QGEMM_X_ZERO];
    d.source = (struct qgemm_source){
        .args = args, .p = p, .x = args->src[QGEMM_X], .outside = x_zero == NULL ? 0 : *x_zero};
    const uint8_t x_zero_read = d.source.outside ^ d.x_flip;
    d.x_zero = qgemm_zero_at(&x_zero_read, 1, 0, d.x_signed);
    d.y_zero = qgemm_zero_at(args->src[QGEMM_Y_ZERO], 1, 0, p->result == QGEMM_I8);
    d.needs_sums = any_zero(&d);
    d.sum = qgemm_sum_of(p, args->src[QGEMM_ADDEND]);
    d.item_bytes = atc_item_bytes((int)qgemm_result_type(p));
    const struct qgemm_scratch scratch = qgemm_scratch_of(p, &d.b);
    d.copied_x = args->scratch;
    d.steps = (int64_t *)(void *)(d.copied_x + scratch.steps);
    d.row_sums = (int32_t *)(void *)(d.copied_x + scratch.row_sums);
    d.columns = (struct qgemm_columns *)(void *)(d.copied_x + scratch.columns);
    d.ones = d.copied_x + scratch.ones;
    d.packed_w = d.copied_x + scratch.w;
    d.schedules = d.copied_x + scratch.schedules;
    d.wide_w = (int16_t *)(void *)(d.copied_x + scratch.wide_w);
    d.wide_x = (int16_t *)(void *)(d.copied_x + scratch.wide_x);
    d.k1 = qgemm_multiplied_k1(p);
    fill_steps(&d);
    if (d.needs_sums || signs_panels(p))
        qgemm_ones(args, d.ones);
    if (atc_was_stopped(args))
        return; /* not all steps may be written */
    for (int64_t item = args->begin; item < args->end; item++)
        run_item(&d, item);
}
