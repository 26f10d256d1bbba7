/* Values of graph_kernel's programs: how the domain is cut, and where in a tile they lie. */
#include "graph_kernel/graph_kernel_machine.h"

#include <assert.h>
#include <string.h>

enum {
    TILE = 1024, /* elements, more or less */
    TILE_STEP = 16,
    FOREVER = GK_CODE + 1,
};

struct shape gk_shape_of(const struct graph_kernel_params *p)
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
    s.max_elements = s.part * s.rows_each;
    return s;
}

int64_t gk_tiles(const struct graph_kernel_params *p)
{
    const struct shape s = gk_shape_of(p);
    return s.cols == 0 ? 0 : atc_mul(ceil_div(s.rows, s.rows_each), s.parts);
}

int gk_take(int *used, int max)
{
    assert(*used < max);
    (void)max;
    return (*used)++;
}

int gk_take_buffer(struct machine *m)
{
    return m->n_free > 0 ? m->free[--m->n_free]
                         : LOCATION_BUFFER + gk_take(&m->n_buffers, MAX_BUFFERS);
}

int gk_take_location(struct machine *m, enum extent extent)
{
    return extent == ONE ? LOCATION_CELL + gk_take(&m->n_cells, MAX_CELLS) : gk_take_buffer(m);
}

void gk_release(struct machine *m, int location)
{
    if (location >= LOCATION_BUFFER)
        m->free[m->n_free++] = location;
}

int gk_constant(struct machine *m, int type, int32_t immediate)
{
    float real;
    memcpy(&real, &immediate, sizeof real);
    const double wide = (double)real;
    const int location = gk_take_location(m, ONE);
    uint64_t *at = m->cell + (location - LOCATION_CELL);
    *at = 0;
    if (type == DTYPE_F32)
        memcpy(at, &real, sizeof real);
    else if (type == DTYPE_F64)
        memcpy(at, &wide, sizeof wide);
    else
        *at = type == DTYPE_BOOL ? immediate != 0 : (uint64_t)(int64_t)immediate;
    return location;
}

void gk_name_values(struct machine *m, int *results)
{
    const struct graph_kernel_params *p = m->p;
    int types[GK_REGISTERS] = {0}, value_of[GK_REGISTERS] = {0};
    struct gk_call call;
    m->n_values = (int)p->n_src;
    for (int s = 0; s < m->n_values; s++) {
        value_of[s] = s;
        types[s] = m->value[s].type;
        m->value[s].last = 0;
        m->value[s].target = NOWHERE;
    }
    for (int64_t i = 0; i < p->n_code; i += call.words) {
        gk_read(p, i, types, &call);
        struct value result = {.type = call.type,
                               .location = NOWHERE,
                               .spread = NOWHERE,
                               .last = i,
                               .target = NOWHERE};
        for (int s = 0; s < call.n_src; s++) {
            if (call.src[s] == GK_IMMEDIATE)
                continue;
            struct value *read = m->value + value_of[call.src[s]];
            read->last = i;
            if (read->extent > result.extent)
                result.extent = read->extent;
        }
        if (call.kind == GK_KIND_REDUCE && result.extent == ALL)
            result.extent = m->shape.is_block ? COLUMN : ONE;
        types[call.d] = call.type;
        value_of[call.d] = m->n_values;
        m->value[m->n_values++] = result;
    }
    for (int d = 0; d < p->n_dst; d++) {
        results[d] = value_of[gk_result(p, d)];
        m->value[results[d]].last = FOREVER;
    }
}

/* True if a value computed at `word` may be written where destination d lies: nothing that lies
 * there is still to be read. Only destination 0 may be a source's memory.
 */
static bool may_write(const struct machine *m, int d, enum gk_kind kind, int64_t word)
{
    const bool in_place = kind == GK_KIND_UNARY || kind == GK_KIND_BINARY;
    for (int s = 0; d == 0 && s < m->p->n_src; s++)
        if (m->args->src[s] == m->args->dst[0] && m->value[s].location == LOCATION_SRC + s &&
            m->value[s].last >= word + in_place)
            return false;
    return true;
}

void gk_end_values(struct machine *m, const struct gk_call *call, const int *value_of, int64_t at,
                   const struct value *only_like)
{
    for (int s = 0; s < call->n_src; s++) {
        if (call->src[s] == GK_IMMEDIATE)
            continue;
        struct value *v = m->value + value_of[call->src[s]];
        if (v->last != at)
            continue;
        if (only_like != NULL && (v->extent != only_like->extent ||
                                  atc_item_bytes(v->type) != atc_item_bytes(only_like->type)))
            continue;
        if (!v->is_kept)
            gk_release(m, v->location);
        gk_release(m, v->spread);
        v->is_kept = true;
        v->spread = NOWHERE;
    }
}

enum extent gk_extent_of(const struct machine *m, int d)
{
    const int mask = gk_mask(m->p, (int)m->p->n_src + d);
    if ((mask >> (GK_DIMS - 1) & 1) == 0 || m->shape.cols == 1)
        return ALL;
    return m->shape.is_block ? COLUMN : ONE;
}

void gk_place_result(struct machine *m, const struct gk_call *call, struct value *v,
                     const int *results, int64_t at)
{
    for (int d = 0; d < m->p->n_dst && m->routines != NULL; d++) {
        if (m->value + results[d] != v || gk_extent_of(m, d) != v->extent ||
            gk_type(m->p, (int)m->p->n_src + d) != v->type || !may_write(m, d, call->kind, at))
            continue;
        v->target = d;
        v->location = LOCATION_DST + d;
        return;
    }
    v->location = gk_take_location(m, v->extent);
}
