/* The blocking of qgemm: chunks of x that stay in L2, groups of panels, and scratch. */
#include "quant/qgemm_blocking.h"

#include "quant/qgemm_wide_avx2.h"

enum {
    ITEMS_WANTED = 32, /* enough to balance some threads */
    LEAST_CHUNK_ROWS = 4 * QGEMM_MAX_ROWS,
    ALIASING_ROW = 1024,
    MAX_KEPT_GROUPS = 64, /* bits of a word */
};

/* True if no window reaches beyond the picture. */
static bool is_inside(const struct qgemm_params *p)
{
    return p->pt == 0 && p->pl == 0 && qgemm_input_rows(p, p->oh) <= p->h &&
           qgemm_input_columns(p) <= p->w;
}

static int64_t part_bytes(const struct qgemm_params *p, int64_t lines)
{
    const int64_t pixels = atc_mul(qgemm_input_rows(p, lines), qgemm_input_columns(p));
    return atc_mul(ceil_div(p->cg, p->k_c0) * p->k_c0, pixels);
}

/* Whether the row of this CPU schedules panels: AVX2's does, which serves AVX-512 without VNNI too.
 */
static bool schedules_panels(const struct atc_cpu *cpu)
{
#ifdef ATC_X86
    return cpu->isa == ISA_AVX2 || cpu->isa == ISA_AVX512F;
#else
    (void)cpu;
    return false;
#endif
}

/* How x is read, and the results that a chunk may have for its part of x to stay in L2. */
static int64_t choose_reading(const struct qgemm_params *p, const struct atc_cpu *cpu,
                              struct qgemm_blocking *b)
{
    const int64_t budget = cpu->l2_bytes / 2;
    b->row_bytes = qgemm_k1(p) * QGEMM_K0;
    b->line = b->rows;
    b->unit = QGEMM_MAX_ROWS;
    b->flipped = p->x_signed == 1 && schedules_panels(cpu) && b->rows >= QGEMM_LEAST_SCHEDULED;
    if (qgemm_reads_rows(p)) {
        b->reading = QGEMM_ROWS;
        b->copied = b->flipped || p->c % QGEMM_K0 != 0 || p->c % ALIASING_ROW == 0;
    } else if (qgemm_has_pixels_as_rows(p)) {
        b->reading = QGEMM_PICTURE;
        b->copied = b->flipped;
        b->pitch = b->rows * 16;
        b->plane = b->pitch;
        b->x_row = 16;
        return budget / b->row_bytes;
    } else if (p->k_c0 != 1 && (p->k_c0 == QGEMM_K0 || part_bytes(p, 1) <= budget)) {
        b->reading = QGEMM_PICTURE;
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
        b->reading = QGEMM_WINDOWS;
        b->copied = true;
    }
    if (b->copied && b->row_bytes % ALIASING_ROW == 0)
        b->row_bytes += 64;
    b->x_row = b->row_bytes;
    return budget / b->row_bytes;
}

struct qgemm_blocking qgemm_block(const struct qgemm_params *p, const struct atc_cpu *cpu)
{
    struct qgemm_blocking b = {.rows = p->oh * p->ow};
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
    if (b.copied && qgemm_has_pixels_as_rows(p)) {
        b.plane = b.chunk_rows * 16;
        b.x_bytes = atc_mul(b.chunk_rows, b.row_bytes);
    } else if (b.copied && b.reading == QGEMM_PICTURE) {
        const int64_t lines = b.chunk_rows / b.line;
        b.pitch = qgemm_input_columns(p) * p->k_c0;
        b.plane = qgemm_input_rows(p, lines) * b.pitch;
        b.x_bytes = part_bytes(p, lines);
    } else if (b.copied) {
        b.x_bytes = atc_mul(b.chunk_rows, b.row_bytes);
    }
    b.x_line = p->sh * b.pitch;
    b.schedules =
        schedules_panels(cpu) && b.rows >= QGEMM_LEAST_SCHEDULED && qgemm_k1(p) <= QGEMM_MOST_STEPS;
    const int64_t all_groups = qgemm_all_groups(p, &b);
    const bool reads_again = b.chunks > 1 || (p->n > 1 && p->w_batched == 0);
    b.kept_groups = reads_again && all_groups <= MAX_KEPT_GROUPS ? all_groups : 1;
    return b;
}

static int64_t up_to_line(int64_t bytes)
{
    return ceil_div(bytes, 64) * 64;
}

struct qgemm_scratch qgemm_scratch_of(const struct qgemm_params *p, const struct qgemm_blocking *b)
{
    struct qgemm_scratch s = {.steps = up_to_line(b->x_bytes)};
    s.row_sums = atc_add(s.steps, up_to_line(atc_mul(qgemm_k1(p), (int64_t)sizeof(int64_t))));
    s.columns = atc_add(s.row_sums, up_to_line(atc_mul(b->chunk_rows, (int64_t)sizeof(int32_t))));
    s.ones = atc_add(s.columns, up_to_line(atc_mul(atc_mul(b->kept_groups, b->group),
                                                   (int64_t)sizeof(struct qgemm_columns))));
    s.w = atc_add(s.ones, b->panel_bytes);
    int64_t panels = p->w_signed == 1 ? 0 : QGEMM_MAX_BLOCKS;
    if (p->w_packed == 0)
        panels = b->group;
    s.schedules = atc_add(s.w, atc_mul(panels, b->panel_bytes));
    s.wide_w = s.wide_x = s.bytes = s.schedules;
    if (b->schedules) {
        const int64_t k1 = qgemm_k1(p);
        const int64_t schedules = b->kept_groups * ceil_div(b->group, QGEMM_SCHEDULED);
        s.wide_w = atc_add(s.schedules, atc_mul(schedules, qgemm_schedule_bytes(k1)));
        s.wide_x = atc_add(s.wide_w, qgemm_wide_w_bytes(k1));
        s.bytes = atc_add(s.wide_w, qgemm_wide_bytes(k1));
    }
    return s;
}
