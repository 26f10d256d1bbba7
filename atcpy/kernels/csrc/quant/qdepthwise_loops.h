/* The loops of qdepthwise around a micro-kernel; the file of each ISA compiles them. */
#include "quant/qdepthwise.h"

struct qdw {
    const struct qdepthwise_params *p;
    const struct kernel_args *args;
    struct qdw_plan plan;
    struct atc_meter meter;
    const struct qdw_isa *isa;
    enum qdw_form form; /* of the weights */
    uint8_t flip, outside;
    uint32_t *packed;     /* [in_rows][columns][16] */
    uint32_t *weights;    /* [kh][pairs][16], or [kh][quads][shared][16] */
    int64_t *offsets;     /* of the positions of a window, in words */
    const uint8_t **in;   /* [in_rows], of x or outside_row */
    uint8_t *values;      /* [kh][kw][16]: weights less their zero points */
    uint8_t *outside_row; /* [w][16] */
    int64_t block;        /* whose weights these are, or -1 */
    struct qgemm_columns columns;
    struct qgemm_tile tile;
};

/* Byte `column` of a row, as unsigned bytes; outside it is x's zero point. */
static inline const uint8_t *pixel(const uint8_t *row, int64_t column, int64_t width,
                                   const uint8_t *outside)
{
    return column < 0 || column >= width ? outside : row + column * QDW_C0;
}

/* Two taps a lane. */
static inline void pair(uint32_t *restrict to, const uint8_t *restrict low,
                        const uint8_t *restrict high, uint8_t flip)
{
    uint8_t l[QDW_C0], h[QDW_C0];
    memcpy(l, low, sizeof l);
    memcpy(h, high, sizeof h);
    const uint32_t both = flip * UINT32_C(0x00010001);
    for (int i = 0; i < QDW_C0; i++)
        to[i] = ((uint32_t)l[i] | (uint32_t)h[i] << 16) ^ both;
}

/* Positions of a row, the first of which goes to `to`. */
static inline __attribute__((always_inline)) void
pack_positions(const struct qdw *d, const uint8_t *row, int64_t width, const uint8_t *outside,
               const struct atc_piece *positions, uint32_t *to)
{
    const struct qdepthwise_params *p = d->p;
    const uint8_t flip = d->flip;
    /* Positions whose taps both lie inside need no test. */
    const int64_t begin = p->pl, end = min_i64(width - p->dw + p->pl, positions->end);
    for (int64_t q = positions->begin; q < positions->end; q++, to += QDW_C0) {
        if (q >= begin && q < end)
            for (const uint8_t *at = row + (q - p->pl) * QDW_C0; q < end;
                 q++, to += QDW_C0, at += QDW_C0)
                pair(to, at, at + p->dw * QDW_C0, flip);
        if (q == positions->end)
            break;
        pair(to, pixel(row, q - p->pl, width, outside),
             pixel(row, q - p->pl + p->dw, width, outside), flip);
    }
}

static void pack(struct qdw *d, const uint8_t *plane, int64_t first_row)
{
    const struct qdepthwise_params *p = d->p;
    uint8_t outside[QDW_C0];
    memset(outside, d->outside ^ d->flip, sizeof outside);
    uint32_t *to = d->packed;
    for (int64_t r = 0; r < d->plan.in_rows; r++) {
        const int64_t at = first_row * p->sh - p->pt + r;
        if (atc_spend(&d->meter, 4 * d->plan.columns))
            return;
        const bool inside = at >= 0 && at < p->h;
        const uint8_t *row = plane + (inside ? at * p->w * QDW_C0 : 0);
        const int64_t width = inside ? p->w : 0;
        for (struct atc_piece piece = {0}; atc_next_piece(d->args, &piece, d->plan.columns);)
            pack_positions(d, row, width, outside, &piece, to + piece.begin * QDW_C0);
        to += d->plan.columns * QDW_C0;
    }
}

static void fill_outside(const struct qdw *d)
{
    const int64_t bytes = d->p->w * QDW_C0;
    for (struct atc_piece piece = {0}; atc_next_piece(d->args, &piece, bytes);)
        memset(d->outside_row + piece.begin, d->outside ^ d->flip,
               (size_t)(piece.end - piece.begin));
}

static int32_t byte_at(const uint8_t *bytes, int64_t at, bool is_signed)
{
    return is_signed ? (int8_t)bytes[at] : bytes[at];
}

/* Weights of a tap in all channels, less their zero points; none beyond the row. */
static inline void weights_at(const struct qdw *d, const struct qdw_weights *w, int64_t y,
                              int64_t x, int32_t *restrict to)
{
    const uint8_t *from = w->w + (y * d->p->kw + x) * QDW_C0;
    const int32_t flip = w->is_signed ? 0x80 : 0; /* to and from unsigned bytes */
    if (x >= d->p->kw)
        memset(to, 0, QDW_C0 * sizeof *to);
    else
        for (int i = 0; i < QDW_C0; i++)
            to[i] = (from[i] ^ flip) - flip - w->zeros[i];
}

/* Weights as pairs, and where those of a window lie. */
static void pack_pairs(struct qdw *d, const struct qdw_weights *w, uint32_t sums[QDW_C0])
{
    const struct qdepthwise_params *p = d->p;
    uint32_t *to = d->weights;
    for (int64_t y = 0; y < p->kh; y++)
        for (int64_t x = 0; x < d->plan.pairs && !atc_spend(&d->meter, 2 * QDW_C0);
             x++, to += QDW_C0) {
            int32_t low[QDW_C0], high[QDW_C0];
            weights_at(d, w, y, 2 * x, low);
            weights_at(d, w, y, 2 * x + 1, high);
            for (int i = 0; i < QDW_C0; i++) {
                to[i] = ((uint32_t)low[i] & 0xffff) | (uint32_t)high[i] << 16;
                sums[i] += (uint32_t)low[i] + (uint32_t)high[i];
            }
            d->offsets[y * d->plan.pairs + x] =
                (y * p->dh * d->plan.columns + x * 2 * p->dw) * QDW_C0;
        }
}

/* Weights of a block, and what finishes its sums. */
static void take_weights(struct qdw *d, int64_t block)
{
    const struct qdepthwise_params *p = d->p;
    const void *const *src = d->args->src;
    struct qdw_weights w = {
        .w = (const uint8_t *)src[QGEMM_W] + block * p->kh * p->kw * QDW_C0,
        .is_signed = p->w_signed == 1,
    };
    uint32_t sums[QDW_C0] = {0};
    const int64_t first = block * QDW_C0, channels = min_i64(QDW_C0, p->c - first);
    for (int64_t i = 0; i < channels && src[QGEMM_W_ZERO] != NULL; i++)
        w.zeros[i] = byte_at(src[QGEMM_W_ZERO], p->w_zeros == 1 ? 0 : first + i, w.is_signed);
    d->form = d->isa->direct != NULL && qdw_may_be_direct(p, &d->plan)
                  ? d->isa->pack_weights(p, &w, d->values, d->weights, sums)
                  : QDW_PAIRS;
    if (d->form == QDW_PAIRS)
        pack_pairs(d, &w, sums);
    d->columns = (struct qgemm_columns){0};
    qgemm_fill(&d->columns, d->args, (enum qgemm_result)p->result, first, channels, p->w_scales);
    const bool is_signed = d->form != QDW_PAIRS && d->isa->reads_signed && p->x_signed == 1;
    const int32_t outside = is_signed ? (int8_t)(d->outside ^ d->flip) : d->outside;
    /* Channels beyond the last one, too: all rows compute the same of what lies there. */
    for (int64_t i = 0; i < QDW_C0; i++)
        d->columns.start[i] =
            (int32_t)((uint32_t)d->columns.start[i] - (uint32_t)outside * sums[i]);
    d->block = block;
}

static void run_row(struct qdw *d, const uint32_t *in)
{
    const struct qdepthwise_params *p = d->p;
    struct qdw_windows windows = {
        .in = in,
        .step = p->sw * QDW_C0,
        .offsets = d->offsets,
        .weights = d->weights,
        .taps = p->kh * d->plan.pairs,
    };
    for (int64_t x = 0; x < p->ow && !atc_spend(&d->meter, 8 * windows.taps); x += QDW_WIDTH) {
        windows.results = (int)min_i64(QDW_WIDTH, p->ow - x);
        d->isa->pairs(&windows, &d->tile);
        windows.in += QDW_WIDTH * windows.step;
        d->tile.dst += windows.results * d->tile.dst_row;
    }
}

/* Rows of results from x itself: rows that lie outside are one that holds what lies there. */
static void run_lines(struct qdw *d, const uint8_t *plane, int64_t first_row, int64_t rows)
{
    const struct qdepthwise_params *p = d->p;
    const int64_t in_rows = (rows - 1) * p->sh + (p->kh - 1) * p->dh + 1;
    for (int64_t r = 0; r < in_rows && !atc_spend(&d->meter, 1); r++) {
        const int64_t at = first_row * p->sh - p->pt + r;
        d->in[r] = at >= 0 && at < p->h ? plane + at * p->w * QDW_C0 : d->outside_row;
    }
    if (atc_was_stopped(d->args))
        return; /* not all rows may be there */
    struct qdw_lines lines = {
        .p = p,
        .beside = d->outside_row,
        .flip = d->flip,
        .form = d->form,
        .weights = d->weights,
        .dst_line = p->ow * d->tile.dst_row,
    };
    const int64_t work = QDW_SPAN * p->kh * d->plan.quads;
    for (int64_t r = 0; r < rows; r += QDW_TILE) {
        lines.in = d->in + r * p->sh;
        lines.rows = (int)min_i64(QDW_TILE, rows - r);
        for (int64_t x = 0; x < p->ow && !atc_spend(&d->meter, work); x += QDW_SPAN) {
            lines.begin = x;
            lines.end = min_i64(p->ow, x + QDW_SPAN);
            d->isa->direct(&lines, &d->tile);
        }
        d->tile.dst += QDW_TILE * lines.dst_line;
    }
}

static void run_item(struct qdw *d, int64_t item)
{
    const struct qdepthwise_params *p = d->p;
    const int64_t plane = item / d->plan.chunks, row = item % d->plan.chunks * QDW_ROWS;
    const int64_t block = plane % ceil_div(p->c, QDW_C0), rows = min_i64(QDW_ROWS, p->oh - row);
    if (d->block != block)
        take_weights(d, block);
    if (atc_was_stopped(d->args))
        return; /* not all weights and offsets may be written */
    const uint8_t *x = (const uint8_t *)d->args->src[QGEMM_X] + plane * p->h * p->w * QDW_C0;
    d->tile.dst = (uint8_t *)d->args->dst[0] + (plane * p->oh + row) * p->ow * d->tile.dst_row;
    if (d->form != QDW_PAIRS) {
        run_lines(d, x, row, rows);
        return;
    }
    pack(d, x, row);
    for (int64_t r = 0; r < rows; r++)
        run_row(d, d->packed + r * p->sh * d->plan.columns * QDW_C0);
}

static void qdepthwise_items(const struct kernel_args *args, const struct qdw_isa *isa)
{
    const struct qdepthwise_params *p = args->params;
    struct qdw d = {.p = p,
                    .args = args,
                    .plan = qdw_plan(p),
                    .meter = {.args = args},
                    .isa = isa,
                    .block = -1};
    const uint8_t *x_zero = args->src[QGEMM_X_ZERO], *y_zero = args->src[QGEMM_Y_ZERO];
    d.flip = p->x_signed == 1 ? 0x80 : 0;
    d.outside = (x_zero == NULL ? 0 : *x_zero) ^ d.flip;
    d.packed = args->scratch;
    d.weights = d.packed + d.plan.in_rows * d.plan.columns * QDW_C0;
    d.offsets = (int64_t *)(void *)(d.weights + p->kh * d.plan.weights * QDW_C0);
    d.in = (const uint8_t **)(void *)(d.offsets + p->kh * d.plan.pairs);
    d.values = (uint8_t *)(d.in + d.plan.in_rows);
    d.outside_row = d.values + p->kh * p->kw * QDW_C0;
    fill_outside(&d);
    d.tile = (struct qgemm_tile){
        .args = args,
        .columns = &d.columns,
        .dst_row = QDW_C0 * (p->result == QGEMM_I32 || p->result == QGEMM_F32 ? 4 : 1),
        .last_columns = QDW_C0,
        .result = (enum qgemm_result)p->result,
        .y_zero = y_zero == NULL ? 0 : byte_at(y_zero, 0, p->result == QGEMM_I8),
    };
    for (int64_t item = args->begin; item < args->end; item++)
        run_item(&d, item);
}
