/* The qgemm family: its checker, its blocking, and the loops around the micro-kernels. */
#include "quant/qgemm.h"

#include <math.h>
#include <string.h>

const char *const qgemm_results[] = {"i32", "f32", "i8", "u8", NULL};
static const enum atc_dtype result_types[] = {DTYPE_I32, DTYPE_F32, DTYPE_I8, DTYPE_U8};

enum { MAX_K = INT32_MAX, MAX_LINE = 1 << 24 };

static enum atc_dtype byte_type(int64_t is_signed)
{
    return is_signed == 1 ? DTYPE_I8 : DTYPE_U8;
}

static bool is_matrix(const struct qgemm_params *p)
{
    return p->kh == 1 && p->kw == 1 && p->sh == 1 && p->sw == 1 && p->pt == 0 && p->pl == 0 &&
           p->oh == p->h && p->ow == p->w && p->group == 1;
}

/* The rows of the matrix are pixels of blocks of channels. */
static bool has_pixels_as_rows(const struct qgemm_params *p)
{
    return p->src_c0 == 16 && is_matrix(p);
}

/* Rows of [rows, c] are multiplied as they are, or copied to where their distance suits the cache.
 */
static bool reads_rows(const struct qgemm_params *p)
{
    return p->src_c0 != 1 && p->src_c0 != 16;
}

/* Pixels of x that a line of results takes, from the first to the last. */
static int64_t columns_of(const struct qgemm_params *p)
{
    return (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1;
}

static int64_t rows_of(const struct qgemm_params *p, int64_t lines)
{
    return (lines - 1) * p->sh + (p->kh - 1) * p->dh + 1;
}

static const char *check_sizes(const struct qgemm_params *p)
{
    if (!ATC_SIZES_OK(1, p->n, p->c, p->h, p->w, p->m, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw,
                      p->dh, p->dw, p->group, p->cg, p->mg, p->src_c0, p->k_c0, p->dst_c0) ||
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
    if (atc_mul(atc_add(p->cg, p->k_c0), taps) > MAX_K || atc_mul(p->oh, p->ow) >= ATC_TOO_BIG)
        return "too many products or results";
    if (p->k_c0 != p->src_c0) {
        if (p->k_c0 != QGEMM_K0 || p->src_c0 != 1 || p->c > QGEMM_K0 || p->group != 1)
            return "k_c0 is neither src_c0 nor 4 for few channels";
        if (atc_mul(rows_of(p, 1), atc_mul(columns_of(p), QGEMM_K0)) > MAX_LINE)
            return "a line of results takes too much of a picture";
    }
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

/* True for steps whose products and quotients stay far from the limits of float32. */
static bool is_scale(double scale)
{
    return scale >= 0x1p-40 && scale <= 0x1p40;
}

static bool is_zero_point(int64_t zero, enum atc_dtype dtype)
{
    return dtype == DTYPE_I8 ? zero >= INT8_MIN && zero <= INT8_MAX
                             : zero >= 0 && zero <= UINT8_MAX;
}

/* An addend of `elements` bytes. */
static const char *check_addend(const struct task_view *task, int64_t elements)
{
    const struct qgemm_params *p = task->params;
    const enum atc_dtype y = task->dst->dtype;
    if (task->src[QGEMM_ADDEND].region == REGION_NONE)
        return NULL;
    if (p->result != QGEMM_I8 && p->result != QGEMM_U8)
        return "an addend for results that are no bytes";
    if (!is_scale(p->product_scale) || !is_scale(p->addend_scale) || !is_scale(p->sum_scale) ||
        !is_zero_point(p->addend_zero, y) || !is_zero_point(p->sum_zero, y))
        return "a scale or zero point of the sum is out of range";
    /* Quotients fit into int32. */
    if (p->product_scale > p->sum_scale * 0x1p20 || p->addend_scale > p->sum_scale * 0x1p20)
        return "the sum's scale is too small for what is added";
    if (!atc_holds(task, task->src + QGEMM_ADDEND, y, elements, 1))
        return "the addend is too small or of another type";
    return NULL;
}

static const char *check(const struct task_view *task)
{
    const struct qgemm_params *p = task->params;
    if ((task->n_src != QGEMM_OPERANDS && task->n_src != QGEMM_SHARED_OPERANDS) || task->n_dst != 1)
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
    return task->n_src == QGEMM_OPERANDS ? check_addend(task, y) : NULL;
}

/* Tiles read rows, or windows that are copied side by side; one row is bound by reading w. */
bool qgemm_fills_tiles(const struct task_view *task)
{
    const struct qgemm_params *p = task->params;
    return (reads_rows(p) || p->k_c0 == 1) && p->oh * p->ow > 1;
}

/* How x is read. */
enum reading {
    ROWS,    /* of a matrix */
    PICTURE, /* windows where they lie: a tile has results of one line, or of two short ones */
    WINDOWS  /* side by side, where no window is inside a part of the picture that fits into L2 */
};

/* How the work is cut. Results are cut into chunks whose part of x stays in L2 while the panels of
 * weights pass over them; and into groups of panels, where there are too few chunks.
 */
struct blocking {
    enum reading reading;
    bool copied;             /* x */
    bool flipped;            /* copies of signed bytes hold unsigned ones */
    int64_t rows, row_bytes; /* results of a picture; of copied rows or windows */
    int64_t line;            /* results that lie evenly in x */
    int64_t x_row,
        x_line;           /* bytes from one result's part of x to the next, and from line to line */
    int64_t unit;         /* results of which a chunk has whole ones */
    int64_t plane, pitch; /* bytes of a picture's blocks of channels, and of its rows */
    int64_t chunk_rows, chunks;
    int64_t x_bytes;               /* copied for a chunk */
    int64_t panels, group, groups; /* panels; of one item; items a chunk */
    int64_t panel_bytes;
    int64_t schedules; /* panels: those of a tile, or of an item; 0 where none is scheduled */
};

enum {
    ITEMS_WANTED = 32, /* enough to balance some threads */
    LEAST_CHUNK_ROWS = 4 * QGEMM_MAX_ROWS,
    LEAST_SCHEDULED_ROWS = 8, /* results for which it pays to schedule a panel before */
    ALIASING_ROW = 1024,
};

/* True if no window reaches beyond the picture. */
static bool is_inside(const struct qgemm_params *p)
{
    return p->pt == 0 && p->pl == 0 && rows_of(p, p->oh) <= p->h && columns_of(p) <= p->w;
}

static int64_t part_bytes(const struct qgemm_params *p, int64_t lines)
{
    const int64_t pixels = atc_mul(rows_of(p, lines), columns_of(p));
    return atc_mul(ceil_div(p->cg, p->k_c0) * p->k_c0, pixels);
}

/* Whether the row of this CPU schedules panels: AVX2's does, which serves AVX-512 without VNNI too.
 */
static bool schedules_panels(const struct atc_cpu *cpu)
{
#ifdef ATC_X86
    return cpu->isa >= ISA_AVX2 && cpu->isa < ISA_AVX512VNNI;
#else
    (void)cpu;
    return false;
#endif
}

/* How x is read, and the results that a chunk may have for its part of x to stay in L2. */
static int64_t choose_reading(const struct qgemm_params *p, const struct atc_cpu *cpu,
                              struct blocking *b)
{
    const int64_t budget = cpu->l2_bytes / 2;
    b->row_bytes = qgemm_k1(p) * QGEMM_K0;
    b->line = b->rows;
    b->unit = QGEMM_MAX_ROWS;
    b->flipped = p->x_signed == 1 && schedules_panels(cpu) && b->rows >= LEAST_SCHEDULED_ROWS;
    if (reads_rows(p)) {
        b->reading = ROWS;
        b->copied = b->flipped || p->c % QGEMM_K0 != 0 || p->c % ALIASING_ROW == 0;
    } else if (has_pixels_as_rows(p)) {
        b->reading = PICTURE;
        b->copied = b->flipped;
        b->pitch = b->rows * 16;
        b->plane = b->pitch;
        b->x_row = 16;
        return budget / b->row_bytes;
    } else if (p->k_c0 != 1 && (p->k_c0 == QGEMM_K0 || part_bytes(p, 1) <= budget)) {
        b->reading = PICTURE;
        b->copied = b->flipped || p->k_c0 != p->src_c0 || !is_inside(p);
        b->line = p->ow;
        b->unit = p->ow;
        b->x_row = p->sw * p->k_c0;
        b->pitch = p->w * 16;
        b->plane = p->h * b->pitch;
        int64_t lines = 1;
        while (lines < p->oh && part_bytes(p, 2 * lines) <= budget)
            lines *= 2;
        return min_i64(lines, p->oh) * p->ow;
    } else {
        b->reading = WINDOWS;
        b->copied = true;
    }
    if (b->copied && b->row_bytes % ALIASING_ROW == 0)
        b->row_bytes += 64;
    b->x_row = b->row_bytes;
    return budget / b->row_bytes;
}

static int64_t schedule_bytes(const struct qgemm_params *p, int64_t panels)
{
    return atc_mul(atc_mul(panels, qgemm_stretches(qgemm_k1(p))),
                   (int64_t)sizeof(struct qgemm_stretch));
}

static struct blocking block(const struct qgemm_params *p, const struct atc_cpu *cpu)
{
    struct blocking b = {.rows = p->oh * p->ow};
    b.panel_bytes = (qgemm_k1(p) + 1) * QGEMM_BLOCK;
    b.panels = ceil_div(p->mg, QGEMM_PANEL);
    b.chunk_rows = choose_reading(p, cpu, &b);
    const int64_t pictures = atc_mul(p->n, p->group);
    /* Every chunk reads all weights: small ones from L2. */
    if (p->w_packed == 1 && atc_mul(b.panels, b.panel_bytes) <= cpu->l2_bytes / 4)
        b.chunk_rows = min_i64(b.chunk_rows, ceil_div(b.rows, ceil_div(ITEMS_WANTED, pictures)));
    if (b.chunk_rows < LEAST_CHUNK_ROWS)
        b.chunk_rows = LEAST_CHUNK_ROWS;
    b.chunks = ceil_div(b.rows, min_i64(b.chunk_rows, b.rows));
    b.chunk_rows = min_i64(b.rows, ceil_div(ceil_div(b.rows, b.chunks), b.unit) * b.unit);
    b.chunks = ceil_div(b.rows, b.chunk_rows);
    const int64_t pairs = ceil_div(b.panels, 2);
    const int64_t groups = min_i64(pairs, ceil_div(ITEMS_WANTED, atc_mul(pictures, b.chunks)));
    b.group = ceil_div(pairs, groups) * 2;
    b.groups = ceil_div(b.panels, b.group);
    if (b.copied && has_pixels_as_rows(p)) {
        b.plane = b.chunk_rows * 16;
        b.x_bytes = atc_mul(b.chunk_rows, b.row_bytes);
    } else if (b.copied && b.reading == PICTURE) {
        const int64_t lines = b.chunk_rows / b.line;
        b.pitch = columns_of(p) * p->k_c0;
        b.plane = rows_of(p, lines) * b.pitch;
        b.x_bytes = part_bytes(p, lines);
    } else if (b.copied) {
        b.x_bytes = atc_mul(b.chunk_rows, b.row_bytes);
    }
    b.x_line = p->sh * b.pitch;
    if (schedules_panels(cpu) && b.rows >= LEAST_SCHEDULED_ROWS) {
        b.schedules = QGEMM_MAX_BLOCKS;
        /* Several chunks meet the same weights. */
        if (b.chunks > 1 && p->w_packed == 1 && b.group > b.schedules &&
            schedule_bytes(p, b.group) <= cpu->l2_bytes)
            b.schedules = b.group;
    }
    return b;
}

static int64_t up_to_line(int64_t bytes)
{
    return ceil_div(bytes, 64) * 64;
}

static int64_t products(const void *params)
{
    const struct qgemm_params *p = params;
    const int64_t results = atc_mul(atc_mul(p->n, p->m), atc_mul(p->oh, p->ow));
    return atc_mul(results, atc_mul(p->cg, atc_mul(p->kh, p->kw)));
}

/* Where what in a thread's scratch lies. */
struct scratch {
    int64_t steps, row_sums, columns, ones, w, schedule, bytes; /* x lies first */
};

static struct scratch scratch_of(const struct qgemm_params *p, const struct blocking *b)
{
    struct scratch s = {.steps = up_to_line(b->x_bytes)};
    s.row_sums = atc_add(s.steps, up_to_line(atc_mul(qgemm_k1(p), (int64_t)sizeof(int64_t))));
    s.columns = atc_add(s.row_sums, up_to_line(atc_mul(b->chunk_rows, (int64_t)sizeof(int32_t))));
    s.ones =
        atc_add(s.columns, up_to_line(atc_mul(b->group, (int64_t)sizeof(struct qgemm_columns))));
    s.w = atc_add(s.ones, b->panel_bytes);
    int64_t panels = p->w_signed == 1 ? 0 : QGEMM_MAX_BLOCKS;
    if (p->w_packed == 0)
        panels = b->group;
    s.schedule = atc_add(s.w, atc_mul(panels, b->panel_bytes));
    s.bytes = atc_add(s.schedule, schedule_bytes(p, b->schedules));
    return s;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    const struct qgemm_params *p = params;
    const struct blocking b = block(p, cpu);
    const int64_t columns = atc_mul(p->group, ceil_div(p->mg, QGEMM_PANEL) * QGEMM_PANEL);
    const int64_t results = atc_mul(atc_mul(p->n, columns), atc_mul(p->oh, p->ow));
    return (struct kernel_cost){.items =
                                    atc_mul(atc_mul(p->n, p->group), atc_mul(b.chunks, b.groups)),
                                .work = atc_div(atc_mul(results, qgemm_k(p) + QGEMM_PANEL), 32),
                                .scratch = scratch_of(p, &b).bytes};
}

DEFINE_FAMILY(qgemm, QGEMM_FIELDS, .check = check, .cost = cost, .products = products,
              .inplace = 1u << QGEMM_ADDEND);

/* --- the loops ------------------------------------------------------------------------------- */

struct drive {
    const struct qgemm_params *p;
    const struct qgemm_isa *isa;
    const struct kernel_args *args;
    struct blocking b;
    struct atc_meter meter;
    struct qgemm_source source;
    uint8_t x_flip;     /* what makes unsigned bytes of x */
    int32_t x_zero;     /* of x as the ISA reads it */
    bool needs_sums;    /* of the rows of x */
    int64_t item_bytes; /* of y */
    int32_t y_zero;
    struct qgemm_sum sum;
    int64_t k1; /* steps that are multiplied */
    uint8_t *copied_x, *packed_w, *ones;
    struct qgemm_stretch *schedule;
    int64_t *steps;
    int32_t *row_sums;
    struct qgemm_columns *columns; /* of a group of panels */
    int64_t filled;                /* (weights, group of panels) that columns belong to, or -1 */
    int64_t copied;                /* (n, group, chunk) that copied_x and row_sums hold, or -1 */
    const uint8_t *x;              /* of the first result of the chunk */
};

static int32_t zero_at(const uint8_t *zeros, int64_t count, int64_t at, bool is_signed)
{
    if (zeros == NULL)
        return 0;
    const uint8_t byte = zeros[count == 1 ? 0 : at];
    return is_signed ? (int8_t)byte : byte;
}

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
    *to = (struct qgemm_columns){0};
    qgemm_fill(to, d->args, (enum qgemm_result)p->result, first, columns, p->w_scales);
    const int32_t middle = p->w_signed == 1 ? 0 : 128;
    for (int64_t i = 0; i < QGEMM_PANEL; i++) {
        /* Without sums of rows, every zero point is the middle. */
        const int32_t zero =
            d->needs_sums && i < columns
                ? zero_at(d->args->src[QGEMM_W_ZERO], p->w_zeros, first + i, p->w_signed == 1)
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

/* All rows of a chunk, which begins with a line: tiles are as even as may be, of one line or of two
 * short ones. Where `planes` is not NULL, y keeps the channels apart.
 */
static void run_tiles(struct drive *d, const struct position *at, struct qgemm_tile *tile,
                      int blocks, const struct planes *planes, int64_t width)
{
    const struct qgemm_params *p = d->p;
    const struct qgemm_isa *isa = d->isa;
    const int64_t first = at->g * p->mg + at->panel * QGEMM_PANEL;
    const int64_t line = min_i64(d->b.line, at->rows), max = isa->max_rows, step = isa->row_step;
    const qgemm_micro *micro = isa->micro + (blocks - 1) * (max / step) - 1;
    const bool by_two = line == QGEMM_PART_ROWS && max >= 2 * line;
    const int64_t even = ceil_div(ceil_div(line, ceil_div(line, max)), step) * step;
    tile->all_rows = at->rows;
    const uint8_t *x = d->x;
    int64_t left = line, rows;
    for (int64_t row = 0; row < at->rows; row += rows) {
        const bool both = by_two && at->rows - row >= 2 * line;
        rows = both ? 2 * line : min_i64(even, left);
        if (atc_spend(&d->meter, 8 * tile->k1))
            return;
        tile->x[0] = x;
        tile->x[1] = both                     ? x + d->b.x_line
                     : rows > QGEMM_PART_ROWS ? x + QGEMM_PART_ROWS * d->b.x_row
                                              : x;
        if (planes != NULL && planes->addend != NULL)
            gather(d, planes->addend, rows, width, at->n * p->m + first, at->row + row);
        tile->rows = rows;
        micro[ceil_div(rows, step)](tile);
        x += both ? 2 * d->b.x_line : rows * d->b.x_row;
        left -= both ? 0 : rows;
        if (left == 0) {
            left = line;
            x += d->b.x_line - line * d->b.x_row;
        }
        if (planes != NULL) {
            scatter(d, planes->y, rows, width, at->n * p->m + first, at->row + row);
        } else {
            tile->dst += rows * tile->dst_row;
            if (tile->addend != NULL)
                tile->addend += rows * tile->dst_row;
        }
        if (tile->row_sums != NULL)
            tile->row_sums += rows;
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
        .x_signed = d->p->x_signed == 1,
        .w = w,
        .w_panel = d->b.panel_bytes,
        .next = w,
        .k1 = d->k1,
        .columns = columns,
    };
}

/* True if all schedules of an item are made at once, for all chunks that meet its weights. */
static bool keeps_schedules(const struct blocking *b)
{
    return b->schedules > 0 && b->schedules >= b->group;
}

/* Panels of unsigned bytes are multiplied as signed ones. */
static bool signs_panels(const struct qgemm_params *p)
{
    return p->w_packed == 1 && p->w_signed == 0;
}

static void make_schedules(struct drive *d, const uint8_t *w, int64_t panels)
{
    for (int64_t i = 0; i < panels && !atc_spend(&d->meter, d->k1); i++) {
        const uint8_t *panel = w + i * d->b.panel_bytes;
        if (signs_panels(d->p)) {
            qgemm_sign_panel(d->args, panel, d->ones, d->packed_w);
            panel = d->packed_w;
        }
        d->isa->schedule(d->args, panel, d->k1, d->schedule + i * qgemm_stretches(d->k1));
    }
}

/* All rows of a chunk for the panels of a tile. */
static void run_panels(struct drive *d, const struct position *at, const uint8_t *w, int blocks,
                       const struct qgemm_columns *columns)
{
    const struct qgemm_params *p = d->p;
    const int64_t first = at->panel * QGEMM_PANEL;
    const int64_t width = min_i64((int64_t)blocks * QGEMM_PANEL, p->mg - first);
    const uint8_t *next = w + blocks * d->b.panel_bytes;
    const bool scheduled = d->b.schedules > 0 && at->rows >= LEAST_SCHEDULED_ROWS;
    if (!scheduled && signs_panels(p)) {
        for (int b = 0; b < blocks; b++)
            qgemm_sign_panel(d->args, w + b * d->b.panel_bytes, d->ones,
                             d->packed_w + b * d->b.panel_bytes);
        w = d->packed_w;
    }
    struct qgemm_tile tile = tile_of(d, w, columns);
    if (p->w_packed == 1 && at->panel + 2 * blocks <= d->b.panels)
        tile.next = next;
    if (scheduled && keeps_schedules(&d->b)) {
        tile.schedule = d->schedule + at->panel % d->b.group * qgemm_stretches(d->k1);
    } else if (scheduled) {
        make_schedules(d, w, blocks);
        tile.schedule = d->schedule;
    }
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
    run_tiles(d, at, &tile, blocks, apart ? &planes : NULL, width);
}

/* The sums of a chunk's rows of x, as the ISA reads it. */
static void sum_rows(struct drive *d, const struct position *at)
{
    const struct qgemm_params *p = d->p;
    const int64_t line = min_i64(d->b.line, at->rows);
    const uint8_t flip = p->x_signed == 1 && !d->b.flipped ? 0x80 : 0;
    const uint32_t count = (uint32_t)(p->cg * p->kh * p->kw);
    const uint32_t added = p->x_signed == 1 && d->isa->reads_signed ? 128 * count : 0;
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

/* Makes unsigned bytes of all that is copied. */
static void flip_copy(const struct drive *d)
{
    uint8_t *x = d->copied_x;
    const uint8_t flip = d->x_flip;
    for (struct atc_piece piece = {0}; atc_next_piece(d->args, &piece, d->b.x_bytes);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            x[i] ^= flip;
}

/* Points to what the chunk reads, copied if need be, and sums up its rows if zero points need that.
 */
static void take_x(struct drive *d, const struct position *at)
{
    const struct qgemm_params *p = d->p;
    const struct blocking *b = &d->b;
    const int64_t c0 = p->src_c0, c1 = ceil_div(p->c, c0);
    const int64_t line = at->row / b->line, column = at->row % b->line;
    if (b->copied)
        d->x = d->copied_x;
    else
        d->x = d->source.x + (at->n * c1 + at->g * p->cg / c0) * p->h * p->w * c0 +
               line * b->x_line + column * b->x_row;
    if (b->copied && has_pixels_as_rows(p)) {
        copy_pixels(d, at);
    } else if (b->copied && b->reading == PICTURE) {
        const struct qgemm_picture part = {.y = line * p->sh - p->pt,
                                           .x = -p->pl,
                                           .rows = rows_of(p, at->rows / b->line),
                                           .columns = columns_of(p),
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
                       const uint8_t *w)
{
    const struct qgemm_params *p = d->p;
    for (int64_t i = first; i < end && !atc_spend(&d->meter, 4 * QGEMM_PANEL); i++) {
        const int64_t column = i * QGEMM_PANEL;
        fill_columns(d, at->g * p->mg + column, min_i64(QGEMM_PANEL, p->mg - column),
                     w + (i - first) * d->b.panel_bytes, d->columns + i - first);
    }
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
    if (d->isa->begin_rows != NULL)
        d->isa->begin_rows(at.rows);
    if (d->copied != chunk)
        take_x(d, &at);
    d->copied = chunk;
    const uint8_t *w = p->w_packed == 1 ? (const uint8_t *)d->args->src[QGEMM_W] +
                                              (at.g * b->panels + first) * b->panel_bytes
                                        : pack_w(d, at.n, first, end);
    const int64_t weights = (p->w_batched == 1 ? at.n : at.g) * b->groups + part;
    if (d->filled != weights)
        fill_group(d, &at, first, end, w);
    if (d->filled != weights && keeps_schedules(b))
        make_schedules(d, w, end - first);
    d->filled = weights;
    for (at.panel = first; at.panel < end && !atc_spend(&d->meter, 1);
         at.panel += d->isa->max_blocks) {
        const int blocks = (int)min_i64(d->isa->max_blocks, end - at.panel);
        run_panels(d, &at, w + (at.panel - first) * b->panel_bytes, blocks,
                   d->columns + at.panel - first);
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

/* Where each step of k lies behind what a result reads first. */
static void fill_steps(struct drive *d)
{
    const struct qgemm_params *p = d->p;
    const struct blocking *b = &d->b;
    int64_t *to = d->steps;
    if (b->reading != PICTURE) {
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

/* The steps of what is added, and of the sum. */
static struct qgemm_sum sum_of(const struct kernel_args *args)
{
    const struct qgemm_params *p = args->params;
    if (args->src[QGEMM_ADDEND] == NULL)
        return (struct qgemm_sum){0};
    const float scale = (float)p->sum_scale, inverse = 1 / scale;
    return (struct qgemm_sum){
        .product_scale = (float)p->product_scale,
        .addend_scale = (float)p->addend_scale,
        .scale = scale,
        .inverse = inverse,
        .rest = (float)((1 - (double)inverse * scale) / scale),
        .addend_zero = (int32_t)p->addend_zero,
        .zero = (int32_t)p->sum_zero,
    };
}

void qgemm_drive(const struct kernel_args *args, const struct qgemm_isa *isa)
{
    const struct qgemm_params *p = args->params;
    struct drive d = {.p = p,
                      .isa = isa,
                      .args = args,
                      .b = block(p, args->cpu),
                      .meter = {.args = args},
                      .x_flip = p->x_signed == 1 && !isa->reads_signed ? 0x80 : 0,
                      .filled = -1,
                      .copied = -1};
    if (isa->schedule == NULL) { /* another row than the CPU's */
        d.b.schedules = 0;
        d.b.flipped = false;
    }
    const uint8_t *x_zero = args->src[QGEMM_X_ZERO];
    d.source = (struct qgemm_source){
        .args = args, .p = p, .x = args->src[QGEMM_X], .outside = x_zero == NULL ? 0 : *x_zero};
    d.x_zero =
        isa->reads_signed ? zero_at(x_zero, 1, 0, p->x_signed == 1) : d.source.outside ^ d.x_flip;
    d.y_zero = zero_at(args->src[QGEMM_Y_ZERO], 1, 0, p->result == QGEMM_I8);
    d.needs_sums = any_zero(&d);
    d.sum = sum_of(args);
    d.item_bytes = atc_item_bytes((int)result_types[p->result]);
    const struct scratch scratch = scratch_of(p, &d.b);
    d.copied_x = args->scratch;
    d.steps = (int64_t *)(void *)(d.copied_x + scratch.steps);
    d.row_sums = (int32_t *)(void *)(d.copied_x + scratch.row_sums);
    d.columns = (struct qgemm_columns *)(void *)(d.copied_x + scratch.columns);
    d.ones = d.copied_x + scratch.ones;
    d.packed_w = d.copied_x + scratch.w;
    d.schedule = (struct qgemm_stretch *)(void *)(d.copied_x + scratch.schedule);
    d.k1 = qgemm_multiplied_k1(p);
    fill_steps(&d);
    if (d.needs_sums || signs_panels(p))
        qgemm_ones(args, d.ones);
    if (atc_was_stopped(args))
        return; /* not all steps may be written */
    for (int64_t item = args->begin; item < args->end; item++)
        run_item(&d, item);
}
