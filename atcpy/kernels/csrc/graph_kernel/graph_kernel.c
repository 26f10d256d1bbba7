/* The graph_kernel family: its checker and how its work is dealt. */
#include "graph_kernel/graph_kernel_program.h"

/* Elements of operand `slot`, or ATC_TOO_BIG. */
static int64_t elements_of(const struct graph_kernel_params *p, int slot)
{
    int64_t elements = 1;
    for (int d = 0; d < GK_DIMS; d++)
        if ((gk_mask(p, slot) >> d & 1) == 0)
            elements = atc_mul(elements, p->dims[d]);
    return elements;
}

static int64_t domain(const struct graph_kernel_params *p)
{
    return atc_product(p->dims, GK_DIMS);
}

/* The dims along which the operand is one element and the domain is not. */
static int missing(const struct graph_kernel_params *p, int slot)
{
    int dims = 0;
    for (int d = 0; d < GK_DIMS; d++)
        if (p->dims[d] != 1)
            dims |= gk_mask(p, slot) & 1 << d;
    return dims;
}

static const char *check_operands(const struct task_view *task)
{
    const struct graph_kernel_params *p = task->params;
    const int n = task->n_src + task->n_dst;
    if (task->n_src < 1 || task->n_src > GK_SOURCES || task->n_dst < 1 ||
        task->n_dst > GK_TARGETS || p->n_src != task->n_src || p->n_dst != task->n_dst)
        return "wrong number of operands";
    if (!atc_dims_ok(p->dims, GK_DIMS))
        return "a size is out of range";
    if (p->masks < 0 || p->masks >> (5 * n) != 0 || p->types < 0 || p->types >> (5 * n) != 0 ||
        p->results < 0 || p->results >> (8 * task->n_dst) != 0)
        return "more operands are described than there are";
    for (int i = 0; i < n; i++) {
        const bool is_dst = i >= task->n_src;
        const struct atc_slot *slot = is_dst ? task->dst + (i - task->n_src) : task->src + i;
        const int dtype = gk_type(p, i);
        if (gk_register_type(dtype) == 0)
            return "an operand's type has no register";
        if (is_dst && (missing(p, i) & ~(1 << (GK_DIMS - 1))) != 0)
            return "a destination is broadcast";
        if (!atc_holds(task, slot, (enum atc_dtype)dtype, elements_of(p, i), atc_item_bytes(dtype)))
            return "an operand is too small or of another type";
        const bool in_place = !is_dst && atc_same_memory(slot, task->dst);
        if (in_place && (missing(p, i) != missing(p, task->n_src) ||
                         atc_item_bytes(dtype) != atc_item_bytes(gk_type(p, task->n_src))))
            return "a source lies where the result goes, in other steps";
    }
    return NULL;
}

/* What the checker knows of the registers. */
struct registers {
    int types[GK_REGISTERS];   /* 0: nothing is written */
    bool varies[GK_REGISTERS]; /* along a row */
};

/* As the instruction's own family sees it, on a few elements. */
static const char *check_call(const struct gk_call *call)
{
    enum { SOME = 8 };
    union gk_params params;
    const char *reason = gk_fill(call, &params);
    if (reason != NULL)
        return reason;
    struct atc_slot src[3], dst = {REGION_ARENA, (uint8_t)call->written, 0, 0, 0, SOME * 8};
    for (int i = 0; i < call->n_src; i++)
        src[i] = (struct atc_slot){REGION_ARENA, (uint8_t)call->src_type[i], 0, 0, 0, SOME * 8};
    *gk_elements(call->kind, &params) = SOME;
    const struct task_view view = {
        .src = src, .dst = &dst, .n_src = call->n_src, .n_dst = 1, .params = &params};
    return gk_family(call->kind)->check(&view);
}

static const char *check_code(const struct graph_kernel_params *p, struct registers *r)
{
    struct gk_call call;
    for (int64_t i = 0; i < p->n_code; i += call.words) {
        const char *reason = gk_read(p, i, r->types, &call);
        if (reason == NULL && call.kind != GK_KIND_CONST)
            reason = check_call(&call);
        if (reason != NULL)
            return reason;
        bool varies = false;
        for (int s = 0; s < call.n_src; s++)
            varies |= call.src[s] != GK_IMMEDIATE && r->varies[call.src[s]];
        if (call.kind == GK_KIND_REDUCE && !varies)
            return "a reduction of what is the same all along the row";
        r->types[call.d] = call.type;
        r->varies[call.d] = varies && call.kind != GK_KIND_REDUCE;
    }
    for (int64_t i = p->n_code; i < GK_CODE; i++)
        if (p->code[i] != 0)
            return "instructions beyond the last";
    return NULL;
}

static const char *check(const struct task_view *task)
{
    const struct graph_kernel_params *p = task->params;
    const char *reason = check_operands(task);
    if (reason != NULL)
        return reason;
    if (p->n_code < 0 || p->n_code > GK_CODE)
        return "a size is out of range";
    /* Along a dim of one element nothing is broadcast. */
    const int row_bit = p->dims[GK_DIMS - 1] == 1 ? 0 : 1 << (GK_DIMS - 1);
    struct registers r = {{0}, {0}};
    for (int s = 0; s < task->n_src; s++) {
        r.types[s] = gk_register_type(gk_type(p, s));
        r.varies[s] = (gk_mask(p, s) & row_bit) == 0;
    }
    reason = check_code(p, &r);
    if (reason != NULL)
        return reason;
    if (gk_takes_rows(p) && (p->dims[GK_DIMS - 1] < 1 || p->dims[GK_DIMS - 1] > GK_ROW))
        return "a row is too long";
    for (int d = 0; d < task->n_dst; d++) {
        const int from = gk_result(p, d), dtype = gk_type(p, task->n_src + d);
        if (from >= GK_REGISTERS || r.types[from] == 0)
            return "a result is what nothing wrote";
        if (r.types[from] != gk_register_type(dtype))
            return "a result is of another type";
        if ((gk_mask(p, task->n_src + d) & row_bit) != 0 && r.varies[from])
            return "a destination is broadcast";
    }
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct graph_kernel_params *p = params;
    return (struct kernel_cost){.items = gk_tiles(p),
                                .work = atc_div(atc_mul(domain(p), gk_quarters(p)), 4),
                                .scratch = gk_scratch(p)};
}

DEFINE_FAMILY(graph_kernel, GRAPH_KERNEL_FIELDS, .check = check, .cost = cost,
              .inplace = (1 << GK_SOURCES) - 1);
