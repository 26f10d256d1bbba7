/* The machine of graph_kernel: places values in tiles, and runs the steps of a program on each
 * tile.
 *
 * A tile is a run of one row, or several whole rows where they are short. A source is read where it
 * lies; only where its elements repeat within a tile of several rows are they laid out first. A
 * value that is the same all over the tile is one element, which steps read without moving. A
 * result is written where it belongs by the step that makes it, unless a later one still reads what
 * lies there.
 */
#include "graph_kernel_rows.h"

#include <string.h>

/* The rows of the types that have no vectors. */
#define ROWS(family)                                                                               \
    [DTYPE_F32] = family##_f32_scalar, [DTYPE_F64] = family##_f64_scalar,                          \
    [DTYPE_I8] = family##_i8_scalar, [DTYPE_U8] = family##_u8_scalar,                              \
    [DTYPE_I32] = family##_i32_scalar, [DTYPE_U32] = family##_u32_scalar,                          \
    [DTYPE_I64] = family##_i64_scalar, [DTYPE_U64] = family##_u64_scalar,                          \
    [DTYPE_BOOL] = family##_bool_scalar
#define ROWS_16(family) [DTYPE_I16] = family##_i16_scalar, [DTYPE_U16] = family##_u16_scalar
static const kernel_fn unary_rows[] = {ROWS(unary), ROWS_16(unary)};
static const kernel_fn binary_rows[] = {ROWS(binary), ROWS_16(binary)};
static const kernel_fn reduce_rows[] = {ROWS(reduce)};

enum {
    TILE = 1024, /* elements, more or less */
    TILE_STEP = 16,
    MAX_VALUES = GK_SOURCES + GK_CODE,
    MAX_STEPS = GK_SOURCES + 2 * GK_CODE + 2 * GK_TARGETS + MAX_VALUES,
    MAX_BUFFERS = MAX_STEPS,
    MAX_CONSTANTS = GK_CODE,
    LINE = 64,   /* bytes that memory brings at once */
    PIECE = 256, /* elements that a chain takes before more of them are fetched */
    /* Places: what the steps of a tile read and write. */
    PLACE_SRC = 0,
    PLACE_DST = PLACE_SRC + GK_SOURCES,
    PLACE_CONSTANT = PLACE_DST + GK_TARGETS,
    PLACE_BUFFER = PLACE_CONSTANT + MAX_CONSTANTS,
    PLACES = PLACE_BUFFER + MAX_BUFFERS,
    NOWHERE = -1,
    FOREVER = GK_CODE + 1,
};

/* How many elements of a tile there are of a value. */
enum extent {
    ONE,    /* the same all over the tile */
    COLUMN, /* one a row, in tiles of several rows */
    ALL,
};

enum how {
    BY_ROW,    /* the family's row */
    BY_BINARY, /* routines below rows */
    BY_WHERE,
    BY_REDUCE, /* by a row, too */
    BY_COPY,
    BY_SPREAD, /* along rows, or all over the tile */
    BY_CHAIN,
};

struct step {
    enum how how;
    int n_src, src[3], dst; /* places */
    enum binary_op op;
    int64_t item;
    int64_t moves[3];
    enum extent extent; /* of what it writes; of a reduction, of what it reads */
    kernel_fn fn;       /* by its family's row, and where in params the elements are counted */
    int64_t *n;
    const struct gk_link *link; /* by a chain */
    int n_links;
    int link_op; /* what it would be in a chain; below 0: nothing */
    union gk_params params;
};

/* How the domain is cut. */
struct shape {
    int64_t rows, cols;
    int64_t parts, part; /* of a row */
    int64_t rows_each;   /* of a tile; 1 where a row has parts */
    int64_t most;        /* elements of a tile */
    bool is_block;       /* tiles may have several rows */
};

/* A value of the program: a source, or what an instruction writes. */
struct value {
    int type, place;
    int spread;   /* where a column is laid out along the rows, or NOWHERE */
    int64_t last; /* the word of the instruction that reads it last; its own where none does */
    enum extent extent;
    bool is_kept; /* its buffer is not for other values */
    int target;   /* the destination that it is made in, or NOWHERE */
};

struct source {
    int64_t stride[GK_DIMS];
    int64_t item;
    bool is_filled; /* laid out in a tile's buffer, at place `filled`, rows of `cols` elements */
    int64_t cols;
    bool is_fixed; /* the same for every tile: once */
    int filled;
};

/* An operand whose tiles follow one another in memory. */
struct stream {
    int place;
    int64_t item;
    uintptr_t next; /* what to fetch next */
    int64_t lines;  /* after each step */
};

struct machine {
    const struct graph_kernel_params *p;
    const struct gk_routines *routines; /* NULL: only the scratch is asked for */
    const struct kernel_args *args;
    struct shape shape;
    struct source source[GK_SOURCES];
    struct value value[MAX_VALUES];
    struct stream stream[GK_SOURCES + GK_TARGETS];
    int n_streams;
    int n_values, n_steps, n_constants;
    int n_buffers;
    int free[MAX_BUFFERS], n_free;
    int64_t buffer_bytes;
    int64_t tile_rows; /* of the tile at work */
    uint64_t constant[MAX_CONSTANTS];
    uint8_t *at[PLACES];
    struct step step[MAX_STEPS];
    int order[MAX_STEPS], n_order;
    int n_links;
    struct gk_link link[2 * MAX_STEPS];
};

static struct shape shape_of(const struct graph_kernel_params *p)
{
    struct shape s = {.rows = 1, .cols = p->dims[GK_DIMS - 1], .parts = 1, .rows_each = 1};
    for (int d = 0; d < GK_DIMS - 1; d++)
        s.rows = atc_mul(s.rows, p->dims[d]);
    const bool takes_rows = gk_takes_rows(p);
    s.part = s.cols;
    if (!takes_rows && s.cols > TILE) {
        s.part = ceil_div(ceil_div(s.cols, ceil_div(s.cols, TILE)), TILE_STEP) * TILE_STEP;
        s.parts = ceil_div(s.cols, s.part);
    } else if (s.cols > 0 && s.cols <= TILE / 2) {
        s.rows_each = TILE / s.cols;
        s.is_block = true;
    }
    s.most = s.part * s.rows_each;
    return s;
}

int64_t gk_tiles(const struct graph_kernel_params *p)
{
    const struct shape s = shape_of(p);
    return s.cols == 0 ? 0 : atc_mul(ceil_div(s.rows, s.rows_each), s.parts);
}

static int take_buffer(struct machine *m)
{
    return m->n_free > 0 ? m->free[--m->n_free] : PLACE_BUFFER + m->n_buffers++;
}

static void give_back(struct machine *m, int place)
{
    if (place >= PLACE_BUFFER)
        m->free[m->n_free++] = place;
}

static int constant(struct machine *m, int type, int32_t immediate)
{
    float real;
    memcpy(&real, &immediate, sizeof real);
    const double wide = (double)real;
    uint64_t *at = m->constant + m->n_constants;
    *at = 0;
    if (type == DTYPE_F32)
        memcpy(at, &real, sizeof real);
    else if (type == DTYPE_F64)
        memcpy(at, &wide, sizeof wide);
    else
        *at = type == DTYPE_BOOL ? immediate != 0 : (uint64_t)(int64_t)immediate;
    return PLACE_CONSTANT + m->n_constants++;
}

static struct step *add_step(struct machine *m, enum how how, int dst, enum extent extent)
{
    struct step *step = m->step + m->n_steps++;
    step->how = how;
    step->dst = dst;
    step->extent = extent;
    step->n = NULL;
    step->n_src = 1;
    step->link_op = NOWHERE;
    return step;
}

static void add_cast(struct machine *m, int from, int to, int src, int dst, enum extent extent)
{
    struct step *step = add_step(m, BY_ROW, dst, extent);
    step->src[0] = step->src[1] = src;
    step->params.cast =
        (struct cast_params){.n = 1, .from = cast_type_of(from), .to = cast_type_of(to)};
    step->n = &step->params.cast.n;
    step->fn = m->routines != NULL ? m->routines->cast : NULL;
}

/* Where source s is read: in memory, laid out for a tile, widened. */
static void place_source(struct machine *m, int s)
{
    const struct graph_kernel_params *p = m->p;
    struct source *source = m->source + s;
    struct value *v = m->value + s;
    const int dtype = gk_type(p, s);
    int64_t run = 1;
    bool repeats = false, is_fixed = true, has_rows = true;
    for (int d = GK_DIMS - 1; d >= 0; d--) {
        const bool is_one = p->dims[d] == 1 || (gk_mask(p, s) >> d & 1) != 0;
        source->stride[d] = is_one ? 0 : run;
        if (!is_one)
            run = atc_mul(run, p->dims[d]);
        repeats |= is_one && p->dims[d] != 1;
        is_fixed &= is_one || d == GK_DIMS - 1;
        has_rows &= !is_one || p->dims[d] == 1 || d == GK_DIMS - 1;
    }
    const bool is_column = source->stride[GK_DIMS - 1] == 0 && m->shape.cols != 1;
    source->item = atc_item_bytes(dtype);
    if (!repeats)
        m->stream[m->n_streams++] = (struct stream){.place = PLACE_SRC + s, .item = source->item};
    source->is_filled = m->shape.is_block && repeats && run != 1 && !(is_column && has_rows);
    source->cols = is_column ? 1 : m->shape.cols;
    source->is_fixed = is_fixed;
    v->type = gk_register_type(dtype);
    v->spread = NOWHERE;
    v->extent = !m->shape.is_block ? (source->stride[GK_DIMS - 1] != 0 ? ALL : ONE)
                : run == 1         ? ONE
                : is_column        ? COLUMN
                                   : ALL;
    v->place = PLACE_SRC + s;
    v->is_kept = source->is_filled;
    if (source->is_filled)
        v->place = source->filled = take_buffer(m);
    if (v->type != dtype) {
        const int raw = v->place;
        v->place = take_buffer(m);
        v->is_kept = false;
        add_cast(m, dtype, v->type, raw, v->place, v->extent);
    }
}

/* Finds what each instruction writes, where it is read last, and which value each result is. */
static void name_values(struct machine *m, int *results)
{
    const struct graph_kernel_params *p = m->p;
    int types[GK_REGISTERS] = {0}, held[GK_REGISTERS] = {0};
    struct gk_call call;
    m->n_values = (int)p->n_src;
    for (int s = 0; s < m->n_values; s++) {
        held[s] = s;
        types[s] = m->value[s].type;
        m->value[s].last = 0;
        m->value[s].target = NOWHERE;
    }
    for (int64_t i = 0; i < p->n_code; i += call.words) {
        gk_read(p, i, types, &call);
        struct value made = {
            .type = call.type, .place = NOWHERE, .spread = NOWHERE, .last = i, .target = NOWHERE};
        for (int s = 0; s < call.n_src; s++) {
            if (call.src[s] == GK_IMMEDIATE)
                continue;
            struct value *read = m->value + held[call.src[s]];
            read->last = i;
            if (read->extent > made.extent)
                made.extent = read->extent;
        }
        if (call.kind == GK_KIND_REDUCE && made.extent == ALL)
            made.extent = m->shape.is_block ? COLUMN : ONE;
        types[call.d] = call.type;
        held[call.d] = m->n_values;
        m->value[m->n_values++] = made;
    }
    for (int d = 0; d < p->n_dst; d++) {
        results[d] = held[gk_result(p, d)];
        m->value[results[d]].last = FOREVER;
    }
}

/* True if a value made at `word` may be written where destination d lies: nothing that lies there
 * is still to be read. Only destination 0 may be a source's memory.
 */
static bool may_write(const struct machine *m, int d, enum gk_kind kind, int64_t word)
{
    const bool in_place = kind == GK_KIND_UNARY || kind == GK_KIND_BINARY;
    for (int s = 0; d == 0 && s < m->p->n_src; s++)
        if (m->args->src[s] == m->args->dst[0] && m->value[s].place == PLACE_SRC + s &&
            m->value[s].last >= word + in_place)
            return false;
    return true;
}

/* Gives back the buffers of values that word `at` is the last to read, if they lie as what the
 * instruction makes will lie, or in any case.
 */
static void end_values(struct machine *m, const struct gk_call *call, const int *held, int64_t at,
                       const struct value *only_like)
{
    for (int s = 0; s < call->n_src; s++) {
        if (call->src[s] == GK_IMMEDIATE)
            continue;
        struct value *v = m->value + held[call->src[s]];
        if (v->last != at)
            continue;
        if (only_like != NULL && (v->extent != only_like->extent ||
                                  atc_item_bytes(v->type) != atc_item_bytes(only_like->type)))
            continue;
        if (!v->is_kept)
            give_back(m, v->place);
        give_back(m, v->spread);
        v->is_kept = true;
        v->spread = NOWHERE;
    }
}

/* What destination d takes of a tile. */
static enum extent extent_of(const struct machine *m, int d)
{
    const int mask = gk_mask(m->p, (int)m->p->n_src + d);
    if ((mask >> (GK_DIMS - 1) & 1) == 0 || m->shape.cols == 1)
        return ALL;
    return m->shape.is_block ? COLUMN : ONE;
}

/* Where the result of the instruction at word `at` goes. */
static void place_result(struct machine *m, const struct gk_call *call, struct value *v,
                         const int *results, int64_t at)
{
    for (int d = 0; d < m->p->n_dst && m->routines != NULL; d++) {
        if (m->value + results[d] != v || extent_of(m, d) != v->extent ||
            gk_type(m->p, (int)m->p->n_src + d) != v->type || !may_write(m, d, call->kind, at))
            continue;
        v->target = d;
        v->place = PLACE_DST + d;
        return;
    }
    v->place = take_buffer(m);
}

static kernel_fn row_of(const struct machine *m, const struct gk_call *call,
                        const union gk_params *params)
{
    const struct gk_routines *routines = m->routines;
    const struct task_view view = {.params = params};
    const int type = call->src_type[0];
    const bool is_f32 = type == DTYPE_F32;
    switch (call->kind) {
    case GK_KIND_UNARY:
        return is_f32 && unary_in_vectors(&view) ? routines->unary_f32 : unary_rows[type];
    case GK_KIND_BINARY:
        return binary_rows[type];
    case GK_KIND_REDUCE:
        return is_f32 && reduce_fits_vectors(&view) ? routines->reduce_f32 : reduce_rows[type];
    case GK_KIND_CLASSIFY:
        return routines->classify;
    default:
        return pow_any_scalar;
    }
}

/* Strides of 0 where an operand is one element. */
static void set_moves(struct step *step, const struct gk_call *call)
{
    if (call->kind == GK_KIND_BINARY) {
        step->params.binary.a_strides[0] = step->moves[0];
        step->params.binary.b_strides[0] = step->moves[1];
    } else if (call->kind == GK_KIND_POW) {
        step->params.pow.a_strides[0] = step->moves[0];
        step->params.pow.b_strides[0] = step->moves[1];
    }
}

/* What an instruction is in a chain; below 0: nothing. */
static int link_op(const struct gk_call *call, const union gk_params *params)
{
    const struct task_view view = {.params = params};
    if (call->kind == GK_KIND_UNARY)
        return unary_in_vectors(&view) ? GK_UNARY + call->op : NOWHERE;
    return call->op <= BINARY_PRELU ? GK_BINARY + call->op : NOWHERE;
}

/* Lays columns out along the rows, where an op mixes them with what has all elements. */
static void spread_columns(struct machine *m, const struct gk_call *call, const int *held)
{
    for (int s = 0; s < call->n_src; s++) {
        struct value *v = call->src[s] == GK_IMMEDIATE ? NULL : m->value + held[call->src[s]];
        if (v == NULL || v->extent != COLUMN || v->spread != NOWHERE)
            continue;
        v->spread = take_buffer(m);
        struct step *step = add_step(m, BY_SPREAD, v->spread, ALL);
        step->src[0] = v->place;
        step->moves[0] = 1;
        step->item = atc_item_bytes(v->type);
    }
}

static void add_call(struct machine *m, const struct gk_call *call, const int *held,
                     const struct value *result)
{
    const bool reduces = call->kind == GK_KIND_REDUCE;
    const enum extent extent = reduces ? m->value[held[call->src[0]]].extent : result->extent;
    struct step *step = add_step(m, reduces ? BY_REDUCE : BY_ROW, result->place, extent);
    step->n_src = call->n_src;
    for (int s = 0; s < 3; s++) {
        const bool is_value = s < call->n_src && call->src[s] != GK_IMMEDIATE;
        const struct value *v = is_value ? m->value + held[call->src[s]] : NULL;
        step->moves[s] = is_value && v->extent != ONE;
        step->src[s] = !is_value                              ? PLACE_CONSTANT
                       : extent == ALL && v->extent == COLUMN ? v->spread
                                                              : v->place;
        if (s < call->n_src && !is_value)
            step->src[s] = constant(m, call->src_type[s], call->immediate);
    }
    if (m->routines == NULL)
        return;
    const bool is_f32 = call->src_type[0] == DTYPE_F32;
    if (call->kind == GK_KIND_SELECT) {
        step->how = BY_WHERE;
        step->item = atc_item_bytes(call->type);
        return;
    }
    if (call->kind == GK_KIND_BINARY && is_f32 && m->routines->binary_f32 != NULL &&
        call->op <= BINARY_LAST_VECTOR) {
        step->how = BY_BINARY;
        step->op = (enum binary_op)call->op;
        step->link_op = extent == ALL ? link_op(call, NULL) : NOWHERE;
        return;
    }
    gk_fill(call, &step->params);
    if (call->kind == GK_KIND_UNARY && is_f32 && extent == ALL && m->routines->chain != NULL)
        step->link_op = link_op(call, &step->params);
    set_moves(step, call);
    step->fn = row_of(m, call, &step->params);
    step->n = gk_elements(call->kind, &step->params);
    *step->n = 1;
}

/* Vectors of float32 may be written where they were read. So may others, but their loops are as the
 * compiler makes them: in vectors only where nothing overlaps.
 */
static bool writes_in_place(const struct gk_call *call)
{
    return call->src_type[0] == DTYPE_F32 &&
           (call->kind == GK_KIND_UNARY || call->kind == GK_KIND_BINARY);
}

static void add_instructions(struct machine *m, const int *results)
{
    const struct graph_kernel_params *p = m->p;
    int types[GK_REGISTERS] = {0}, held[GK_REGISTERS] = {0};
    struct gk_call call;
    int next = (int)p->n_src;
    for (int s = 0; s < next; s++) {
        held[s] = s;
        types[s] = m->value[s].type;
    }
    for (int64_t i = 0; i < p->n_code; i += call.words) {
        gk_read(p, i, types, &call);
        struct value *made = m->value + next;
        if (call.kind == GK_KIND_CONST) {
            made->place = constant(m, call.type, call.immediate);
        } else {
            const bool in_place = writes_in_place(&call);
            const int narrow = call.written != call.type ? take_buffer(m) : NOWHERE;
            /* Operands are looked up by place, which stays with them when their buffer is free. */
            if (made->extent == ALL)
                spread_columns(m, &call, held);
            if (in_place)
                end_values(m, &call, held, i, made);
            place_result(m, &call, made, results, i);
            if (call.kind != GK_KIND_CAST) {
                add_call(m, &call, held, made);
            } else if (narrow == NOWHERE) {
                const struct value *read = m->value + held[call.src[0]];
                add_cast(m, read->type, call.type, read->place, made->place, made->extent);
            } else {
                const struct value *read = m->value + held[call.src[0]];
                add_cast(m, read->type, call.written, read->place, narrow, made->extent);
                add_cast(m, call.written, call.type, narrow, made->place, made->extent);
                give_back(m, narrow);
            }
        }
        end_values(m, &call, held, i, NULL);
        if (made->last == i && made->place >= PLACE_BUFFER)
            give_back(m, made->place);
        types[call.d] = call.type;
        held[call.d] = next++;
    }
}

static void add_results(struct machine *m, const int *results)
{
    const struct graph_kernel_params *p = m->p;
    /* Destination 0 is the last to be written: it may be the memory of a source that is a result.
     */
    for (int d = (int)p->n_dst - 1; d >= 0; d--) {
        const struct value *v = m->value + results[d];
        const int slot = (int)p->n_src + d, dtype = gk_type(p, slot), to = PLACE_DST + d;
        const enum extent extent = extent_of(m, d);
        const bool spreads = v->extent != extent;
        int from = v->place;
        if (extent == ALL)
            m->stream[m->n_streams++] = (struct stream){.place = to, .item = atc_item_bytes(dtype)};
        if (v->target == d)
            continue;
        if (dtype != v->type) {
            const int cast_to = spreads ? take_buffer(m) : to;
            add_cast(m, v->type, dtype, from, cast_to, v->extent);
            from = cast_to;
            if (!spreads)
                continue;
        }
        struct step *step = add_step(m, spreads ? BY_SPREAD : BY_COPY, to, extent);
        step->src[0] = from;
        step->moves[0] = v->extent == COLUMN;
        step->item = atc_item_bytes(dtype);
    }
}

/* True if what step `at` of a chain writes must lie in memory: a step other than the next link
 * reads it, or it is a result.
 */
static bool is_saved(const struct machine *m, int at)
{
    const int place = m->step[at].dst;
    for (int i = at + 1; i < m->n_steps; i++) {
        const struct step *step = m->step + i;
        int reads = 0;
        for (int s = 0; s < step->n_src; s++)
            reads += step->src[s] == place;
        if (reads > 1 || (reads == 1 && (i > at + 1 || step->link_op < 0)))
            return true;
        if (step->dst == place)
            return false;
    }
    return place < PLACE_BUFFER;
}

static struct gk_link *add_link(struct machine *m, int op, int operand, bool moves)
{
    struct gk_link *link = m->link + m->n_links++;
    *link = (struct gk_link){.op = op, .operand = operand, .save = NOWHERE, .moves = moves};
    return link;
}

/* The link that a step is, after one that loads its operand where that is not at work. */
static void link_step(struct machine *m, const struct step *step, int at_work)
{
    const bool is_binary = step->n_src == 2;
    const bool is_reversed = is_binary && step->src[0] != at_work && step->src[1] == at_work;
    if (!is_reversed && step->src[0] != at_work)
        add_link(m, GK_LINK_LOAD, step->src[0], step->moves[0] != 0);
    const int other = is_binary && !is_reversed ? 1 : 0;
    const int op = is_reversed ? step->link_op - GK_BINARY + GK_LINK_REVERSED : step->link_op;
    struct gk_link *link = add_link(m, op, step->src[other], step->moves[other] != 0);
    if (!is_binary) {
        link->alpha = (float)step->params.unary.alpha;
        link->beta = (float)step->params.unary.beta;
    }
}

/* Puts steps that follow one another into chains, and all into the order in which they run. */
static void make_chains(struct machine *m)
{
    int at_work = NOWHERE;
    struct step *chain = NULL;
    for (int i = 0; i < m->n_steps; i++) {
        struct step *step = m->step + i;
        if (step->link_op < 0) {
            chain = NULL;
            at_work = NOWHERE;
            m->order[m->n_order++] = i;
            continue;
        }
        if (chain == NULL) {
            chain = step;
            chain->how = BY_CHAIN;
            chain->link = m->link + m->n_links;
            m->order[m->n_order++] = i;
        }
        link_step(m, step, at_work);
        at_work = step->dst;
        if (is_saved(m, i))
            m->link[m->n_links - 1].save = step->dst;
        chain->n_links = (int)(m->link + m->n_links - chain->link);
    }
}

static void build(struct machine *m, const struct graph_kernel_params *p)
{
    int results[GK_TARGETS] = {0};
    m->p = p;
    m->n_order = m->n_links = m->n_steps = m->n_streams = m->n_constants = m->n_buffers =
        m->n_free = 0;
    m->shape = shape_of(p);
    for (int s = 0; s < p->n_src; s++)
        place_source(m, s);
    name_values(m, results);
    add_instructions(m, results);
    add_results(m, results);
    make_chains(m);
    int64_t item = 1;
    for (int v = 0; v < m->n_values; v++)
        if (atc_item_bytes(m->value[v].type) > item)
            item = atc_item_bytes(m->value[v].type);
    for (int s = 0; s < p->n_src; s++)
        if (m->source[s].item > item)
            item = m->source[s].item;
    m->buffer_bytes = (m->shape.most * item + 63) / 64 * 64 + 64;
}

int64_t gk_scratch(const struct graph_kernel_params *p)
{
    struct machine m;
    m.routines = NULL;
    build(&m, p);
    return m.n_buffers * m.buffer_bytes;
}

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

/* The place of row `row` in each of the outer dims. */
static void find_row(const struct machine *m, int64_t row, int64_t *at)
{
    for (int d = GK_DIMS - 2; d >= 0; d--) {
        const int64_t size = m->p->dims[d];
        at[d] = row % size;
        row /= size;
    }
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
    while (rows > 0) {
        int64_t at[GK_DIMS - 1];
        find_row(m, row, at);
        const uint8_t *from = (const uint8_t *)m->args->src[s] + offset_of(source, at) * item;
        const int64_t run = min_i64(rows, size - at[GK_DIMS - 2]);
        if (source->stride[GK_DIMS - 1] == 0)
            spread(to, from, item, step, run, cols);
        else
            for (int64_t r = 0; r < run; r++)
                memcpy(to + r * cols * item, from + r * step, (size_t)(cols * item));
        to += run * cols * item;
        row += run;
        rows -= run;
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
        if (step->moves[0] != 0)
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
        m->at[PLACE_SRC + s] = (uint8_t *)(uintptr_t)m->args->src[s] + offset * source->item;
        if (source->is_filled && !source->is_fixed)
            fill(m, s, row, rows);
    }
    for (int d = 0; d < p->n_dst; d++) {
        const int slot = (int)p->n_src + d;
        const bool is_one = (gk_mask(p, slot) >> (GK_DIMS - 1) & 1) != 0;
        const int64_t offset = is_one ? row : row * shape->cols + col;
        m->at[PLACE_DST + d] =
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
        stream->next = (uintptr_t)m->at[stream->place] + (uintptr_t)(n * stream->item);
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
    build(&m, args->params);
    for (int i = 0; i < MAX_CONSTANTS; i++)
        m.at[PLACE_CONSTANT + i] = (uint8_t *)(m.constant + i);
    for (int i = 0; i < m.n_buffers; i++)
        m.at[PLACE_BUFFER + i] = (uint8_t *)args->scratch + i * m.buffer_bytes;
    for (int s = 0; s < m.p->n_src; s++)
        if (m.source[s].is_filled && m.source[s].is_fixed)
            fill(&m, s, 0, min_i64(m.shape.rows_each, m.shape.rows));
    struct kernel_args call = {.cpu = args->cpu, .fault = args->fault, .begin = 0, .end = 1};
    for (int64_t tile = args->begin; tile < args->end; tile++) {
        const int64_t n = place_tile(&m, tile);
        run_tile(&m, n, tile + 1 == args->end, &call);
    }
}
