/* Steps of graph_kernel's machine: what runs on each tile. */
#include "graph_kernel/graph_kernel_machine.h"

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

static struct step *add_step(struct machine *m, enum how how, int dst, enum extent extent)
{
    struct step *step = m->step + gk_take(&m->n_steps, MAX_STEPS);
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
        m->stream[m->n_streams++] =
            (struct stream){.location = LOCATION_SRC + s, .item = source->item};
    source->is_filled = m->shape.is_block && repeats && run != 1 && !(is_column && has_rows);
    source->cols = is_column ? 1 : m->shape.cols;
    source->is_fixed = is_fixed;
    v->type = gk_register_type(dtype);
    v->spread = NOWHERE;
    v->extent = !m->shape.is_block ? (source->stride[GK_DIMS - 1] != 0 ? ALL : ONE)
                : run == 1         ? ONE
                : is_column        ? COLUMN
                                   : ALL;
    v->location = LOCATION_SRC + s;
    v->is_kept = source->is_filled;
    if (source->is_filled)
        v->location = source->filled = gk_take_buffer(m);
    if (v->type != dtype) {
        const int raw = v->location;
        v->location = gk_take_location(m, v->extent);
        v->is_kept = false;
        add_cast(m, dtype, v->type, raw, v->location, v->extent);
    }
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
static void spread_columns(struct machine *m, const struct gk_call *call, const int *value_of)
{
    for (int s = 0; s < call->n_src; s++) {
        struct value *v = call->src[s] == GK_IMMEDIATE ? NULL : m->value + value_of[call->src[s]];
        if (v == NULL || v->extent != COLUMN || v->spread != NOWHERE)
            continue;
        v->spread = gk_take_buffer(m);
        struct step *step = add_step(m, BY_SPREAD, v->spread, ALL);
        step->src[0] = v->location;
        step->moves[0] = 1;
        step->item = atc_item_bytes(v->type);
    }
}

static void add_call(struct machine *m, const struct gk_call *call, const int *value_of,
                     const struct value *result)
{
    const bool reduces = call->kind == GK_KIND_REDUCE;
    const enum extent extent = reduces ? m->value[value_of[call->src[0]]].extent : result->extent;
    struct step *step = add_step(m, reduces ? BY_REDUCE : BY_ROW, result->location, extent);
    step->n_src = call->n_src;
    for (int s = 0; s < 3; s++) {
        const bool is_value = s < call->n_src && call->src[s] != GK_IMMEDIATE;
        const struct value *v = is_value ? m->value + value_of[call->src[s]] : NULL;
        step->moves[s] = is_value && v->extent != ONE;
        step->src[s] = !is_value                              ? LOCATION_CELL
                       : extent == ALL && v->extent == COLUMN ? v->spread
                                                              : v->location;
        if (s < call->n_src && !is_value)
            step->src[s] = gk_constant(m, call->src_type[s], call->immediate);
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
    int types[GK_REGISTERS] = {0}, value_of[GK_REGISTERS] = {0};
    struct gk_call call;
    int next = (int)p->n_src;
    for (int s = 0; s < next; s++) {
        value_of[s] = s;
        types[s] = m->value[s].type;
    }
    for (int64_t i = 0; i < p->n_code; i += call.words) {
        gk_read(p, i, types, &call);
        struct value *result = m->value + next;
        if (call.kind == GK_KIND_CONST) {
            result->location = gk_constant(m, call.type, call.immediate);
        } else {
            const bool in_place = writes_in_place(&call);
            const int narrow = call.written != call.type ? gk_take_buffer(m) : NOWHERE;
            /* Operands are looked up by location, which stays with them when their buffer is free.
             */
            if (result->extent == ALL)
                spread_columns(m, &call, value_of);
            if (in_place)
                gk_end_values(m, &call, value_of, i, result);
            gk_place_result(m, &call, result, results, i);
            if (call.kind != GK_KIND_CAST) {
                add_call(m, &call, value_of, result);
            } else if (narrow == NOWHERE) {
                const struct value *read = m->value + value_of[call.src[0]];
                add_cast(m, read->type, call.type, read->location, result->location,
                         result->extent);
            } else {
                const struct value *read = m->value + value_of[call.src[0]];
                add_cast(m, read->type, call.written, read->location, narrow, result->extent);
                add_cast(m, call.written, call.type, narrow, result->location, result->extent);
                gk_release(m, narrow);
            }
        }
        gk_end_values(m, &call, value_of, i, NULL);
        if (result->last == i && result->location >= LOCATION_BUFFER)
            gk_release(m, result->location);
        types[call.d] = call.type;
        value_of[call.d] = next++;
    }
}

static void add_results(struct machine *m, const int *results)
{
    const struct graph_kernel_params *p = m->p;
    /* Destination 0 is the last to be written: it may be the memory of a source that is a result.
     */
    for (int d = (int)p->n_dst - 1; d >= 0; d--) {
        const struct value *v = m->value + results[d];
        const int slot = (int)p->n_src + d, dtype = gk_type(p, slot), to = LOCATION_DST + d;
        const enum extent extent = gk_extent_of(m, d);
        const bool spreads = v->extent != extent;
        int from = v->location;
        if (extent == ALL)
            m->stream[m->n_streams++] =
                (struct stream){.location = to, .item = atc_item_bytes(dtype)};
        if (v->target == d)
            continue;
        if (dtype != v->type) {
            const int cast_to = spreads ? gk_take_buffer(m) : to;
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

void gk_build(struct machine *m, const struct graph_kernel_params *p)
{
    int results[GK_TARGETS] = {0};
    m->p = p;
    m->n_order = m->n_links = m->n_steps = m->n_streams = m->n_cells = m->n_buffers = m->n_free = 0;
    m->shape = gk_shape_of(p);
    for (int s = 0; s < p->n_src; s++)
        place_source(m, s);
    gk_name_values(m, results);
    add_instructions(m, results);
    add_results(m, results);
    gk_make_chains(m);
    int64_t item = 1; /* of the largest value: sources are values, and none is larger in memory */
    for (int v = 0; v < m->n_values; v++)
        if (atc_item_bytes(m->value[v].type) > item)
            item = atc_item_bytes(m->value[v].type);
    m->buffer_bytes = (m->shape.max_elements * item + 63) / 64 * 64 + 64;
}

int64_t gk_scratch(const struct graph_kernel_params *p)
{
    struct machine m;
    m.routines = NULL;
    gk_build(&m, p);
    return m.n_buffers * m.buffer_bytes;
}
