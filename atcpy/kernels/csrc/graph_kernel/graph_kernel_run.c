/* Runs the steps of graph_kernel's machine. While a tile is worked on, the memory of the next one
 * is fetched, some lines at a time: most programs are as fast as memory then.
 */
#include "core/pieces.h"
#include "graph_kernel/graph_kernel_machine.h"

enum {
    LINE = 64,   /* bytes that memory brings at once */
    PIECE = 256, /* elements that a chain takes before more of them are fetched */
};

/* `rows` rows of `cols` elements, each the element at from, `step` bytes further from row to row.
 */
static void spread(void *dst, const void *src, int64_t item, int64_t step, int64_t rows,
                   int64_t cols)
{
#define SPREAD(type)                                                                               \
    {                                                                                              \
        type *to = dst;                                                                            \
        for (int64_t r = 0; r < rows; r++, to += cols) {                                           \
            const type value = *(const type *)((const uint8_t *)src + r * step);                   \
            for (int64_t c = 0; c < cols; c++)                                                     \
                to[c] = value;                                                                     \
        }                                                                                          \
        break;                                                                                     \
    }
    switch (item) {
    case 1:
        SPREAD(uint8_t)
    case 2:
        SPREAD(uint16_t)
    case 4:
        SPREAD(uint32_t)
    default:
        SPREAD(uint64_t)
    }
#undef SPREAD
}

static inline __attribute__((always_inline)) void
copy_rows_of(uint8_t *to, const uint8_t *from, int64_t bytes, int64_t step, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * bytes, from + r * step, (size_t)bytes);
}

/* `rows` rows of so many bytes, which are `step` apart in `from`: often few, such as coordinates.
 */
static void copy_rows(uint8_t *to, const uint8_t *from, int64_t bytes, int64_t step, int64_t rows)
{
    switch (bytes) {
    case 8:
        copy_rows_of(to, from, 8, step, rows);
        break;
    case 12:
        copy_rows_of(to, from, 12, step, rows);
        break;
    case 16:
        copy_rows_of(to, from, 16, step, rows);
        break;
    default:
        copy_rows_of(to, from, bytes, step, rows);
    }
}

/* The index of row `row` in each of the outer dims. */
static void find_row(const struct machine *m, int64_t row, int64_t *at)
{
    for (int d = GK_DIMS - 2; d >= 0; d--) {
        const int64_t size = m->p->dims[d];
        at[d] = row % size;
        row /= size;
    }
}

/* Goes from a row on to the first one of the next run, whose outer dims are others. */
static void next_run(const struct machine *m, int64_t *at)
{
    at[GK_DIMS - 2] = 0;
    for (int d = GK_DIMS - 3; d >= 0 && ++at[d] == m->p->dims[d]; d--)
        at[d] = 0;
}

static int64_t offset_of(const struct source *source, const int64_t *at)
{
    int64_t offset = 0;
    for (int d = 0; d < GK_DIMS - 1; d++)
        offset += at[d] * source->stride[d];
    return offset;
}

/* Lays out a source's elements for `rows` rows from `row` on. */
static void fill(const struct machine *m, int s, int64_t row, int64_t rows)
{
    const struct source *source = m->source + s;
    const int64_t cols = source->cols, item = source->item, size = m->p->dims[GK_DIMS - 2];
    const int64_t step = source->stride[GK_DIMS - 2] * item;
    uint8_t *to = m->at[source->filled];
    int64_t at[GK_DIMS - 1];
    find_row(m, row, at);
    while (rows > 0) {
        const uint8_t *from = (const uint8_t *)m->args->src[s] + offset_of(source, at) * item;
        const int64_t run = min_i64(rows, size - at[GK_DIMS - 2]);
        if (source->stride[GK_DIMS - 1] == 0)
            spread(to, from, item, step, run, cols);
        else
            copy_rows(to, from, cols * item, step, run);
        to += run * cols * item;
        rows -= run;
        next_run(m, at);
    }
}

static void run_step(const struct machine *m, struct step *step, int64_t n,
                     struct kernel_args *args)
{
    const int64_t rows = step->extent == ONE ? 1 : m->tile_rows, tile = n;
    n = step->extent == ALL ? n : rows;
    const void *a = m->at[step->src[0]];
    void *dst = m->at[step->dst];
    switch (step->how) {
    case BY_BINARY:
        m->routines->binary_f32(step->op, a, m->at[step->src[1]], dst, n, step->moves[0],
                                step->moves[1]);
        break;
    case BY_WHERE:
        m->routines->where(step->item, a, m->at[step->src[1]], m->at[step->src[2]], dst, n,
                           step->moves);
        break;
    case BY_ROW:
        args->src[0] = a;
        args->src[1] = m->at[step->src[1]];
        args->dst[0] = dst;
        args->params = &step->params;
        if (*step->n != n)
            *step->n = n;
        step->fn(args);
        break;
    case BY_REDUCE:
        args->src[0] = a;
        args->dst[0] = dst;
        args->params = &step->params;
        args->end = step->params.reduce.kept[0] = rows;
        *step->n = step->params.reduce.kept_stride[0] = n / rows;
        step->fn(args);
        args->end = 1;
        break;
    case BY_COPY:
        memmove(dst, a, (size_t)(n * step->item));
        break;
    case BY_SPREAD:
        if (step->moves[0] != 0 && step->item == 4 && m->routines->spread != NULL)
            m->routines->spread(dst, a, rows, tile / rows);
        else if (step->moves[0] != 0)
            spread(dst, a, step->item, step->item, rows, tile / rows);
        else
            spread(dst, a, step->item, 0, 1, n);
        break;
    case BY_CHAIN: /* run_tile */
        break;
    }
}

/* Places the operands of tile `tile`; returns its elements. */
static int64_t place_tile(struct machine *m, int64_t tile)
{
    const struct graph_kernel_params *p = m->p;
    const struct shape *shape = &m->shape;
    const int64_t row = tile / shape->parts * shape->rows_each;
    const int64_t col = tile % shape->parts * shape->part;
    const int64_t rows = min_i64(shape->rows_each, shape->rows - row);
    int64_t at[GK_DIMS - 1];
    find_row(m, row, at);
    for (int s = 0; s < p->n_src; s++) {
        const struct source *source = m->source + s;
        const int64_t offset = offset_of(source, at) + col * source->stride[GK_DIMS - 1];
        m->at[LOCATION_SRC + s] = (uint8_t *)(uintptr_t)m->args->src[s] + offset * source->item;
        if (source->is_filled && !source->is_fixed)
            fill(m, s, row, rows);
    }
    for (int d = 0; d < p->n_dst; d++) {
        const int slot = (int)p->n_src + d;
        const bool is_one = (gk_mask(p, slot) >> (GK_DIMS - 1) & 1) != 0;
        const int64_t offset = is_one ? row : row * shape->cols + col;
        m->at[LOCATION_DST + d] =
            (uint8_t *)m->args->dst[d] + offset * atc_item_bytes(gk_type(p, slot));
    }
    m->tile_rows = rows;
    return rows * min_i64(shape->part, shape->cols - col);
}

/* Fetches some lines of the next tile. */
static void fetch_ahead(struct machine *m)
{
    for (int k = 0; k < m->n_streams; k++) {
        struct stream *stream = m->stream + k;
        for (int64_t line = 0; line < stream->lines; line++, stream->next += LINE)
            __builtin_prefetch((const void *)stream->next);
    }
}

/* Runs the steps on a tile of n elements, and fetches the next one where there is one. */
static void run_tile(struct machine *m, int64_t n, bool is_last, struct kernel_args *args)
{
    int64_t beats = 0;
    for (int i = 0; i < m->n_order; i++)
        beats += m->step[m->order[i]].how == BY_CHAIN ? ceil_div(n, PIECE) : 1;
    for (int k = 0; k < m->n_streams; k++) {
        struct stream *stream = m->stream + k;
        stream->next = (uintptr_t)m->at[stream->location] + (uintptr_t)(n * stream->item);
        stream->lines = is_last ? 0 : ceil_div(ceil_div(n * stream->item, LINE), beats);
    }
    for (int i = 0; i < m->n_order; i++) {
        struct step *step = m->step + m->order[i];
        if (step->how != BY_CHAIN) {
            fetch_ahead(m);
            run_step(m, step, n, args);
            continue;
        }
        for (int64_t begin = 0; begin < n; begin += PIECE) {
            fetch_ahead(m);
            m->routines->chain(step->link, step->n_links, m->at, begin, min_i64(begin + PIECE, n));
        }
    }
}

void gk_run(const struct kernel_args *args, const struct gk_routines *routines)
{
    struct machine m;
    m.routines = routines;
    m.args = args;
    gk_build(&m, args->params);
    for (int i = 0; i < MAX_CELLS; i++)
        m.at[LOCATION_CELL + i] = (uint8_t *)(m.cell + i);
    for (int i = 0; i < m.n_buffers; i++)
        m.at[LOCATION_BUFFER + i] = (uint8_t *)args->scratch + i * m.buffer_bytes;
    for (int s = 0; s < m.p->n_src; s++)
        if (m.source[s].is_filled && m.source[s].is_fixed)
            fill(&m, s, 0, min_i64(m.shape.rows_each, m.shape.rows));
    struct kernel_args call = {.cpu = args->cpu, .fault = args->fault, .begin = 0, .end = 1};
    struct atc_meter meter = {.args = args};
    const int64_t tile_work = m.shape.max_elements * gk_quarters(m.p);
    for (int64_t tile = args->begin; tile < args->end && !atc_spend(&meter, tile_work); tile++) {
        const int64_t n = place_tile(&m, tile);
        run_tile(&m, n, tile + 1 == args->end, &call);
    }
}
