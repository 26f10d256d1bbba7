/* Instructions of graph_kernel as calls of other families. */
#include "graph_kernel/graph_kernel_program.h"

#include <string.h>

extern const struct kernel_family family_unary, family_binary, family_reduce, family_cast,
    family_where, family_pow, family_classify;

const struct kernel_family *gk_family(enum gk_kind kind)
{
    static const struct kernel_family *const families[] = {
        [GK_KIND_CONST] = NULL,
        [GK_KIND_UNARY] = &family_unary,
        [GK_KIND_BINARY] = &family_binary,
        [GK_KIND_REDUCE] = &family_reduce,
        [GK_KIND_CAST] = &family_cast,
        [GK_KIND_SELECT] = &family_where,
        [GK_KIND_POW] = &family_pow,
        [GK_KIND_CLASSIFY] = &family_classify,
    };
    return families[kind];
}

int64_t *gk_elements(enum gk_kind kind, union gk_params *params)
{
    switch (kind) {
    case GK_KIND_BINARY:
        return params->binary.dims;
    case GK_KIND_REDUCE:
        return params->reduce.reduced + REDUCE_DIMS - 1;
    case GK_KIND_CAST:
        return &params->cast.n;
    case GK_KIND_SELECT:
        return params->where.dims;
    case GK_KIND_POW:
        return params->pow.dims;
    case GK_KIND_CLASSIFY:
        return &params->classify.n;
    case GK_KIND_UNARY:
    case GK_KIND_CONST:
        break;
    }
    return &params->unary.n;
}

int gk_register_type(int dtype)
{
    if (dtype == DTYPE_F16 || dtype == DTYPE_BF16)
        return DTYPE_F32;
    return atc_is_number(dtype) ? dtype : 0;
}

bool gk_takes_rows(const struct graph_kernel_params *p)
{
    bool is_data = false;
    for (int64_t i = 0; i < p->n_code; i++) {
        const int op = gk_instruction(p->code[i]).op;
        if (!is_data && op >= GK_REDUCE && op < GK_CONST)
            return true;
        is_data = !is_data && gk_has_data(op);
    }
    for (int d = 0; d < p->n_dst; d++)
        if ((gk_mask(p, (int)p->n_src + d) & 1 << (GK_DIMS - 1)) != 0 && p->dims[GK_DIMS - 1] != 1)
            return true;
    return false;
}

static int64_t quarters_of(int op)
{
    enum { OF_VECTORS = 1, OF_FUNCTION = 4, OF_REMAINDER = 64 };
    if (op == GK_BINARY + BINARY_MOD || op == GK_BINARY + BINARY_FMOD)
        return OF_REMAINDER;
    return (op >= UNARY_POW && op < GK_BINARY) || op == GK_POW ? OF_FUNCTION : OF_VECTORS;
}

int64_t gk_quarters(const struct graph_kernel_params *p)
{
    int64_t quarters = 1;
    for (int64_t i = 0; i < p->n_code; i++)
        quarters += quarters_of(gk_instruction(p->code[i]).op);
    return quarters;
}

static float float_of(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool is_float(int dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64;
}

static void fill_unary(const struct gk_call *call, struct unary_params *p)
{
    *p = (struct unary_params){.op = call->op};
    if (is_float(call->type) || call->op == UNARY_SHRINK) {
        p->alpha = (double)float_of(call->immediate);
        p->beta = (double)float_of(call->second);
    } else {
        p->low = call->immediate;
        p->high = call->second;
    }
}

/* The bits of NaN, or of infinities: the negative one (1), the positive one (2) or both (3). */
static void fill_classify(const struct gk_call *call, struct classify_params *p)
{
    const bool is_f32 = call->src_type[0] == DTYPE_F32;
    const int64_t infinity = is_f32 ? 0x7f800000 : 0x7ff0000000000000;
    const int64_t size = is_f32 ? INT32_MAX : INT64_MAX;
    const uint64_t sign = (uint64_t)size + 1;
    *p = (struct classify_params){.item = is_f32 ? 4 : 8, .mask = size};
    if (call->op == GK_IS_NAN) {
        p->low = infinity + 1;
        p->high = size;
        return;
    }
    if (call->immediate != 3)
        p->mask = (int64_t)(sign | (uint64_t)size);
    p->low = p->high = (int64_t)((uint64_t)infinity | (call->immediate == 1 ? sign : 0));
}

const char *gk_fill(const struct gk_call *call, union gk_params *params)
{
    switch (call->kind) {
    case GK_KIND_UNARY:
        fill_unary(call, &params->unary);
        return NULL;
    case GK_KIND_BINARY:
        params->binary =
            (struct binary_params){.rank = 1, .op = call->op, .a_strides = {1}, .b_strides = {1}};
        return NULL;
    case GK_KIND_REDUCE:
        params->reduce = (struct reduce_params){.kind = call->op,
                                                .kept = {1, 1, 1, 1},
                                                .reduced = {1, 1, 1, 1},
                                                .reduced_stride = {0, 0, 0, 1},
                                                .inner = 1};
        return NULL;
    case GK_KIND_CAST:
        params->cast = (struct cast_params){.from = cast_type_of(call->src_type[0]),
                                            .to = cast_type_of(call->written)};
        return NULL;
    case GK_KIND_SELECT:
        params->where = (struct where_params){.rank = 1,
                                              .item = atc_item_bytes(call->type),
                                              .c_strides = {1},
                                              .a_strides = {1},
                                              .b_strides = {1}};
        return NULL;
    case GK_KIND_POW:
        params->pow = (struct pow_params){.rank = 1,
                                          .base = pow_type_of(call->src_type[0]),
                                          .exponent = pow_type_of(call->src_type[1]),
                                          .a_strides = {1},
                                          .b_strides = {1}};
        return params->pow.base < 0 || params->pow.exponent < 0 ? "no such op on this type" : NULL;
    case GK_KIND_CLASSIFY:
        fill_classify(call, &params->classify);
        return is_float(call->src_type[0]) ? NULL : "no such op on this type";
    case GK_KIND_CONST:
        break;
    }
    return NULL;
}

/* Reads operand `i`; an immediate has the type of the other operand. */
static bool take(struct gk_call *call, int i, int from, const int *types)
{
    call->src[i] = from;
    if (from == GK_IMMEDIATE)
        return true;
    call->src_type[i] = from < GK_REGISTERS ? types[from] : 0;
    return call->src_type[i] != 0;
}

static bool take_operands(struct gk_call *call, const struct gk_instruction *in, const int *types)
{
    const bool pair = call->kind == GK_KIND_BINARY || call->kind == GK_KIND_POW;
    call->n_src = pair ? 2 : call->kind == GK_KIND_SELECT ? 3 : 1;
    for (int i = 0; i < call->n_src; i++) {
        const int from = i == 0 ? in->a : i == 1 ? in->b : in->immediate;
        if (from < 0 || (from == GK_IMMEDIATE && !pair) || !take(call, i, from, types))
            return false;
    }
    if (!pair)
        return call->kind == GK_KIND_SELECT || in->b == 0;
    if (in->a == GK_IMMEDIATE && in->b == GK_IMMEDIATE)
        return false;
    if (in->a == GK_IMMEDIATE)
        call->src_type[0] = call->src_type[1];
    if (in->b == GK_IMMEDIATE)
        call->src_type[1] = call->src_type[0];
    return true;
}

static enum gk_kind kind_of(int op)
{
    if (op < GK_BINARY)
        return GK_KIND_UNARY;
    if (op < GK_REDUCE)
        return GK_KIND_BINARY;
    if (op < GK_CONST)
        return GK_KIND_REDUCE;
    switch (op) {
    case GK_CAST:
        return GK_KIND_CAST;
    case GK_SELECT:
        return GK_KIND_SELECT;
    case GK_POW:
        return GK_KIND_POW;
    case GK_IS_NAN:
    case GK_IS_INF:
        return GK_KIND_CLASSIFY;
    default:
        return GK_KIND_CONST;
    }
}

/* The op within its family, and the type that it makes. */
static const char *set_op(struct gk_call *call, int op)
{
    call->op = op;
    switch (call->kind) {
    case GK_KIND_UNARY:
        call->op = op - GK_UNARY;
        return call->op > UNARY_BITWISE_NOT ? "no such op" : NULL;
    case GK_KIND_BINARY:
        call->op = op - GK_BINARY;
        if (binary_compares(call->op))
            call->type = call->written = DTYPE_BOOL;
        return call->op > BINARY_SHIFT_RIGHT ? "no such op" : NULL;
    case GK_KIND_REDUCE:
        call->op = op - GK_REDUCE;
        if (call->type == DTYPE_I16 || call->type == DTYPE_U16)
            return "no such op on this type";
        return call->op > REDUCE_LOG_SUM_EXP ? "no such op" : NULL;
    case GK_KIND_CAST:
        call->written = call->immediate;
        call->type = gk_register_type(call->immediate);
        return call->type == 0 ? "no such type" : NULL;
    case GK_KIND_CLASSIFY:
        call->type = call->written = DTYPE_BOOL;
        if (op == GK_IS_INF && (call->immediate < 1 || call->immediate > 3))
            return "no such infinity";
        return NULL;
    default:
        return NULL;
    }
}

const char *gk_read(const struct graph_kernel_params *p, int64_t at, const int *types,
                    struct gk_call *call)
{
    const struct gk_instruction in = gk_instruction(p->code[at]);
    call->kind = kind_of(in.op);
    call->words = gk_has_data(in.op) ? 2 : 1;
    call->d = in.d;
    call->immediate = in.immediate;
    if (in.op > GK_IS_INF)
        return "no such op";
    if (in.d >= GK_REGISTERS || in.d < p->n_src)
        return "an instruction writes where it must not";
    if (at + call->words > p->n_code)
        return "an instruction is cut off";
    const int64_t data = call->words == 2 ? p->code[at + 1] : 0;
    if ((data & UINT32_MAX) != 0)
        return "an instruction's data are malformed";
    call->second = gk_instruction(data).immediate;
    if (call->kind == GK_KIND_CONST) {
        call->n_src = 0;
        call->type = call->written = in.a;
        return in.b != 0 || gk_register_type(in.a) != in.a ? "no constant of this type" : NULL;
    }
    if (!take_operands(call, &in, types))
        return "an instruction reads what nothing wrote";
    call->type = call->written = call->src_type[call->kind == GK_KIND_SELECT];
    return set_op(call, in.op);
}
