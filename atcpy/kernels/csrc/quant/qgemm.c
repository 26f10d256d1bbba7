/* The qgemm family: its checker, its blocking, and the loops around the micro-kernels. */
#include "quant/qgemm.h"

#include <string.h>

const char *const qgemm_results[] = {"i32", "f32", "i8", "u8", NULL};
static const enum atc_dtype result_types[] = {DTYPE_I32, DTYPE_F32, DTYPE_I8, DTYPE_U8};

enum { MAX_K = INT32_MAX };

static enum atc_dtype byte_type(int64_t is_signed)
{
    return is_signed == 1 ? DTYPE_I8 : DTYPE_U8;
}

static bool is_matrix(const struct qgemm_params *p)
{
    return p->kh == 1 && p->kw == 1 && p->sh == 1 && p->sw == 1 && p->pt == 0 && p->pl == 0 &&
           p->oh == p->h && p->ow == p->w && p->group == 1;
}

static const char *check_sizes(const struct qgemm_params *p)
{
    if (!ATC_SIZES_OK(1, p->n, p->c, p->h, p->w, p->m, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw,
                      p->dh, p->dw, p->group, p->cg, p->mg, p->src_c0, p->dst_c0) ||
        !ATC_SIZES_OK(0, p->pt, p->pl))
        return "a size is out of range";
    if (atc_mul(p->group, p->cg) != p->c || atc_mul(p->group, p->mg) != p->m)
        return "groups do not fit the channels";
    if (p->src_c0 != 1 && p->src_c0 != 16 && (p->src_c0 != p->c || !is_matrix(p)))
        return "src_c0 is neither 1 nor 16, nor are rows multiplied";
    if (p->dst_c0 != 1 && p->dst_c0 != 16 && (p->dst_c0 != p->m || p->group != 1))
        return "dst_c0 is neither 1 nor 16, nor are rows made";
    if (p->group > 1 &&
        ((p->src_c0 != 1 && p->cg % 16 != 0) || (p->dst_c0 != 1 && p->mg % 16 != 0)))
        return "groups do not fill whole blocks";
    const int64_t window_h = atc_add(atc_mul(p->oh - 1, p->sh), atc_mul(p->kh - 1, p->dh));
    const int64_t window_w = atc_add(atc_mul(p->ow - 1, p->sw), atc_mul(p->kw - 1, p->dw));
    if (window_h >= ATC_TOO_BIG || window_w >= ATC_TOO_BIG)
        return "the windows reach too far";
    const int64_t taps = atc_mul(p->kh, p->kw);
    if (atc_mul(atc_add(p->cg, p->src_c0), taps) > MAX_K || atc_mul(p->oh, p->ow) >= ATC_TOO_BIG)
        return "too many products or results";
    if (p->w_packed < 0 || p->w_packed > 1 || p->w_batched < 0 || p->w_batched > 1 ||
        (p->w_packed == 1 && p->w_batched == 1) || (p->w_packed == 0 && !is_matrix(p)))
        return "weights cannot lie so";
    return NULL;
}

/* True if the operand is there and holds so much, or is absent and may be. */
static bool fits(const struct task_view *task, int source, enum atc_dtype dtype, int64_t elements,
                 bool optional)
{
    const struct atc_slot *slot = task->src + source;
    if (slot->region == REGION_NONE)
        return optional;
    return atc_holds(task, slot, dtype, elements, atc_item_bytes((int)dtype));
}

const char *qgemm_check_operands(const struct task_view *task, const struct qgemm_types *types)
{
    const struct atc_slot *src = task->src;
    if ((types->w_zeros != 1 && types->w_zeros != types->columns) ||
        (types->w_scales != 1 && types->w_scales != types->columns))
        return "zero points or scales are neither one nor one a column";
    if (types->x_signed < 0 || types->x_signed > 1 || types->w_signed < 0 || types->w_signed > 1)
        return "a sign is neither 0 nor 1";
    const enum atc_dtype x = byte_type(types->x_signed), w = byte_type(types->w_signed);
    const enum atc_dtype y = types->y;
    if (src[QGEMM_X].dtype != x || src[QGEMM_W].dtype != w || task->dst->dtype != y)
        return "an operand is of another type";
    if (!fits(task, QGEMM_X_ZERO, x, 1, true) ||
        !fits(task, QGEMM_W_ZERO, w, types->w_zeros, true) || !fits(task, QGEMM_Y_ZERO, y, 1, true))
        return "a zero point is too small or of another type";
    const bool scaled = y != DTYPE_I32, requantised = scaled && y != DTYPE_F32;
    if (!fits(task, QGEMM_BIAS, y == DTYPE_F32 ? y : DTYPE_I32, types->columns, true) ||
        !fits(task, QGEMM_X_SCALE, DTYPE_F32, 1, !scaled) ||
        !fits(task, QGEMM_W_SCALE, DTYPE_F32, types->w_scales, !scaled) ||
        !fits(task, QGEMM_Y_SCALE, DTYPE_F32, 1, !requantised))
        return "bias or a scale is missing, too small or of another type";
    return NULL;
}

static const char *check(const struct task_view *task)
{
    const struct qgemm_params *p = task->params;
    if (task->n_src != QGEMM_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    const char *reason = check_sizes(p);
    if (reason == NULL)
        reason = qgemm_check_operands(task, &(struct qgemm_types){p->x_signed, p->w_signed,
                                                                  result_types[p->result], p->m,
                                                                  p->w_zeros, p->w_scales});
    if (reason != NULL)
        return reason;

    const int64_t pixels = atc_mul(p->n, atc_mul(p->h, p->w));
    const int64_t x = atc_mul(ceil_div(p->c, p->src_c0) * p->src_c0, pixels);
    const int64_t panels = atc_mul(p->group, ceil_div(p->mg, QGEMM_PANEL));
    const int64_t w = p->w_packed == 1
                          ? atc_mul(panels, atc_mul(qgemm_k1(p) + 1, QGEMM_BLOCK))
                          : atc_mul(p->w_batched == 1 ? p->n : 1, atc_mul(p->cg, p->m));
    const int64_t y =
        atc_mul(ceil_div(p->m, p->dst_c0) * p->dst_c0, atc_mul(p->n, atc_mul(p->oh, p->ow)));
    if (!atc_holds(task, task->src + QGEMM_X, DTYPE_ANY, x, 1) ||
        !atc_holds(task, task->src + QGEMM_W, DTYPE_ANY, w, 1) ||
        !atc_holds(task, task->dst, DTYPE_ANY, y, atc_item_bytes(task->dst->dtype)))
        return "an operand is too small";
    return NULL;
}

/* How the work is cut. Results are cut into chunks whose packed windows stay in L2 while the panels
 * of weights pass over them; and into groups of panels, where there are too few chunks.
 */
struct blocking {
    int64_t rows, row_bytes; /* of packed x; results of a picture */
    int64_t chunk_rows, chunks;
    int64_t panels, group, groups; /* panels; of one item; items a chunk */
    int64_t panel_bytes;
};

enum {
    ITEMS_WANTED = 32, /* enough to balance some threads */
    LEAST_CHUNK_ROWS = 48,
    ALIASING_ROW = 1024,
};

static struct blocking block(const struct qgemm_params *p, const struct atc_cpu *cpu)
{
    struct blocking b = {.rows = p->oh * p->ow, .row_bytes = qgemm_k1(p) * QGEMM_K0};
    if (b.row_bytes % ALIASING_ROW == 0)
        b.row_bytes += 64;
    b.panel_bytes = (qgemm_k1(p) + 1) * QGEMM_BLOCK;
    b.panels = ceil_div(p->mg, QGEMM_PANEL);
    b.chunk_rows = cpu->l2_bytes / 2 / b.row_bytes;
    const int64_t pictures = atc_mul(p->n, p->group);
    b.chunk_rows = min_i64(b.chunk_rows, ceil_div(b.rows, ceil_div(ITEMS_WANTED, pictures)));
    if (b.chunk_rows < LEAST_CHUNK_ROWS)
        b.chunk_rows = LEAST_CHUNK_ROWS;
    b.chunks = ceil_div(b.rows, min_i64(b.chunk_rows, b.rows));
    b.chunk_rows = ceil_div(b.rows, b.chunks);
    b.chunks = ceil_div(b.rows, b.chunk_rows);
    const int64_t pairs = ceil_div(b.panels, QGEMM_MAX_BLOCKS);
    const int64_t groups = min_i64(pairs, ceil_div(ITEMS_WANTED, atc_mul(pictures, b.chunks)));
    b.group = ceil_div(pairs, groups) * QGEMM_MAX_BLOCKS;
    b.groups = ceil_div(b.panels, b.group);
    return b;
}

static int64_t up_to_line(int64_t bytes)
{
    return ceil_div(bytes, 64) * 64;
}

static int64_t x_bytes(const struct blocking *b)
{
    return up_to_line(atc_mul(b->chunk_rows, b->row_bytes));
}

static int64_t products(const void *params)
{
    const struct qgemm_params *p = params;
    const int64_t results = atc_mul(atc_mul(p->n, p->m), atc_mul(p->oh, p->ow));
    return atc_mul(results, atc_mul(p->cg, atc_mul(p->kh, p->kw)));
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    const struct qgemm_params *p = params;
    const struct blocking b = block(p, cpu);
    const int64_t columns = atc_mul(p->group, ceil_div(p->mg, QGEMM_PANEL) * QGEMM_PANEL);
    const int64_t results = atc_mul(atc_mul(p->n, columns), atc_mul(p->oh, p->ow));
    const int64_t w = p->w_packed == 1 ? 0 : atc_mul(b.group, b.panel_bytes);
    return (struct kernel_cost){
        .items = atc_mul(atc_mul(p->n, p->group), atc_mul(b.chunks, b.groups)),
        .work = atc_div(atc_mul(results, qgemm_k(p) + QGEMM_PANEL), 32),
        .scratch = atc_add(atc_add(x_bytes(&b), up_to_line(atc_mul(b.chunk_rows, 4))), w)};
}

DEFINE_FAMILY(qgemm, QGEMM_FIELDS, .check = check, .cost = cost, .products = products);

/* --- the loops ------------------------------------------------------------------------------- */

struct drive {
    const struct qgemm_params *p;
    const struct qgemm_isa *isa;
    const struct kernel_args *args;
    struct blocking b;
    struct atc_meter meter;
    struct qgemm_source source;
    int32_t x_zero;     /* of x as unsigned bytes */
    bool needs_sums;    /* of the rows of x */
    int64_t item_bytes; /* of y */
    int32_t y_zero;
    uint8_t *packed_x, *packed_w;
    int32_t *row_sums;
    int64_t packed; /* (n, group, chunk) that packed_x holds, or -1 */
};

static int32_t zero_at(const uint8_t *zeros, int64_t count, int64_t at, bool is_signed)
{
    if (zeros == NULL)
        return 0;
    const uint8_t byte = zeros[count == 1 ? 0 : at];
    return is_signed ? (int8_t)byte : byte;
}

void qgemm_fill(struct qgemm_columns *to, const struct kernel_args *args, enum qgemm_result result,
                int64_t first, int64_t columns, int64_t w_scales)
{
    const float *x_scale = args->src[QGEMM_X_SCALE], *w_scale = args->src[QGEMM_W_SCALE];
    const float *y_scale = args->src[QGEMM_Y_SCALE];
    const void *bias = args->src[QGEMM_BIAS];
    for (int64_t i = 0; i < columns; i++) {
        const int64_t m = first + i;
        if (bias != NULL && result == QGEMM_F32)
            to->bias[i] = ((const float *)bias)[m];
        else if (bias != NULL)
            to->start[i] = ((const int32_t *)bias)[m];
        if (result != QGEMM_I32)
            to->scale[i] = *x_scale * w_scale[w_scales == 1 ? 0 : m];
        if (result == QGEMM_I8 || result == QGEMM_U8)
            to->scale[i] /= *y_scale;
    }
}

/* What the columns of a panel need, from its sums and the scales and zero points. */
static void fill_columns(const struct drive *d, int64_t first, int64_t columns,
                         const uint8_t *panel, struct qgemm_columns *to)
{
    const struct qgemm_params *p = d->p;
    const uint32_t products = (uint32_t)(p->cg * p->kh * p->kw);
    int32_t sums[QGEMM_PANEL];
    memcpy(sums, panel + d->b.panel_bytes - QGEMM_BLOCK, sizeof sums);
    *to = (struct qgemm_columns){0};
    qgemm_fill(to, d->args, (enum qgemm_result)p->result, first, columns, p->w_scales);
    for (int64_t i = 0; i < columns; i++) {
        const int32_t zero =
            zero_at(d->args->src[QGEMM_W_ZERO], p->w_zeros, first + i, p->w_signed == 1);
        const uint32_t sum = (uint32_t)sums[i] - products * (uint32_t)zero;
        to->start[i] = (int32_t)((uint32_t)to->start[i] - (uint32_t)d->x_zero * sum);
        to->w_zero[i] = p->w_signed == 1 ? zero : zero - 128;
    }
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
}

/* All rows of a chunk for one or two panels. */
static void run_panels(struct drive *d, const struct position *at, const uint8_t *w, int blocks)
{
    const struct qgemm_params *p = d->p;
    struct qgemm_columns columns[QGEMM_MAX_BLOCKS];
    const int64_t first = at->panel * QGEMM_PANEL;
    const int64_t width = min_i64((int64_t)blocks * QGEMM_PANEL, p->mg - first);
    for (int b = 0; b < blocks; b++)
        fill_columns(d, at->g * p->mg + first + b * QGEMM_PANEL,
                     min_i64(QGEMM_PANEL, width - b * QGEMM_PANEL), w + b * d->b.panel_bytes,
                     columns + b);
    struct qgemm_tile tile = {
        .args = d->args,
        .x = d->packed_x,
        .x_row = d->b.row_bytes,
        .w = w,
        .w_panel = d->b.panel_bytes,
        .k1 = qgemm_k1(p),
        .flip = d->p->w_signed == 1 ? 0 : 0x80808080u,
        .columns = columns,
        .row_sums = d->needs_sums ? d->row_sums : NULL,
        .last_columns = width - (blocks - 1) * QGEMM_PANEL,
        .result = (enum qgemm_result)p->result,
        .y_zero = d->y_zero,
    };
    uint8_t planes[16 * QGEMM_MAX_BLOCKS * QGEMM_PANEL * 4];
    const bool apart = p->dst_c0 == 1;
    if (apart) {
        tile.dst = planes;
        tile.dst_row = QGEMM_MAX_BLOCKS * QGEMM_PANEL * d->item_bytes;
        tile.dst_panel = QGEMM_PANEL * d->item_bytes;
    } else {
        aim(d, at, &tile);
    }
    const int64_t tiles = ceil_div(at->rows, d->isa->max_rows);
    for (int64_t t = 0, done = 0; t < tiles; t++) {
        const int64_t rows = at->rows / tiles + (t < at->rows % tiles);
        if (atc_spend(&d->meter, 8 * tile.k1))
            return;
        d->isa->micro[(blocks - 1) * d->isa->max_rows + rows - 1](&tile);
        if (apart)
            scatter(d, planes, rows, width, at->n * p->m + at->g * p->mg + first, at->row + done);
        else
            tile.dst += rows * tile.dst_row;
        tile.x += rows * tile.x_row;
        if (tile.row_sums != NULL)
            tile.row_sums += rows;
        done += rows;
    }
}

static void pack_x(struct drive *d, const struct position *at)
{
    const int64_t k = qgemm_k(d->p);
    qgemm_pack_rows(&d->source, at->n, at->g, at->row, at->rows, d->packed_x, d->b.row_bytes);
    for (int64_t r = 0; d->needs_sums && r < at->rows && !atc_spend(&d->meter, k / 8); r++)
        d->row_sums[r] = d->isa->sum(d->packed_x + r * d->b.row_bytes, k);
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

static void run_item(struct drive *d, int64_t item)
{
    const struct qgemm_params *p = d->p;
    const struct blocking *b = &d->b;
    /* Groups of panels vary fastest: a call with several items has the same rows in them. */
    const int64_t part = item % b->groups, chunk = item / b->groups;
    const int64_t picture = chunk / b->chunks;
    struct position at = {
        .n = picture / p->group, .g = picture % p->group, .row = chunk % b->chunks * b->chunk_rows};
    at.rows = min_i64(b->chunk_rows, b->rows - at.row);
    const int64_t first = part * b->group, end = min_i64(first + b->group, b->panels);
    if (d->packed != chunk)
        pack_x(d, &at);
    d->packed = chunk;
    const uint8_t *w = p->w_packed == 1 ? (const uint8_t *)d->args->src[QGEMM_W] +
                                              (at.g * b->panels + first) * b->panel_bytes
                                        : pack_w(d, at.n, first, end);
    for (at.panel = first; at.panel < end && !atc_spend(&d->meter, 1);
         at.panel += d->isa->max_blocks) {
        const int blocks = (int)min_i64(d->isa->max_blocks, end - at.panel);
        run_panels(d, &at, w + (at.panel - first) * b->panel_bytes, blocks);
    }
}

static bool any_zero(const struct drive *d)
{
    for (int64_t i = 0; i < d->p->w_zeros; i++)
        if (zero_at(d->args->src[QGEMM_W_ZERO], d->p->w_zeros, i, d->p->w_signed == 1) !=
            (d->p->w_signed == 1 ? 0 : 128))
            return true;
    return false;
}

void qgemm_drive(const struct kernel_args *args, const struct qgemm_isa *isa)
{
    const struct qgemm_params *p = args->params;
    struct drive d = {.p = p,
                      .isa = isa,
                      .args = args,
                      .b = block(p, args->cpu),
                      .meter = {.args = args},
                      .packed = -1};
    d.source = (struct qgemm_source){
        .args = args, .p = p, .x = args->src[QGEMM_X], .flip = p->x_signed == 1 ? 0x80 : 0};
    const uint8_t *x_zero = args->src[QGEMM_X_ZERO];
    d.source.outside = (x_zero == NULL ? 0 : *x_zero) ^ d.source.flip;
    d.x_zero = d.source.outside;
    d.y_zero = zero_at(args->src[QGEMM_Y_ZERO], 1, 0, p->result == QGEMM_I8);
    d.needs_sums = any_zero(&d);
    d.item_bytes = atc_item_bytes((int)result_types[p->result]);
    d.packed_x = args->scratch;
    d.row_sums = (int32_t *)(void *)(d.packed_x + x_bytes(&d.b));
    d.packed_w = d.packed_x + x_bytes(&d.b) + up_to_line(d.b.chunk_rows * 4);
    for (int64_t item = args->begin; item < args->end; item++)
        run_item(&d, item);
}
