/* The families quantize and dequantize: checker, and how the work is dealt. */
#include "quant/quantize.h"

#include "quant/packed.h"

static const char *const quant_types[] = {"u8",         "i8",     "u16",        "i16", "u4",
                                          "i4",         "u2",     "i2",         "i32", "f8e4m3fn",
                                          "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", NULL};
static const enum atc_dtype dtypes[] = {
    DTYPE_U8, DTYPE_I8,  DTYPE_U16,      DTYPE_I16,        DTYPE_U4,     DTYPE_I4,        DTYPE_U2,
    DTYPE_I2, DTYPE_I32, DTYPE_F8E4M3FN, DTYPE_F8E4M3FNUZ, DTYPE_F8E5M2, DTYPE_F8E5M2FNUZ};

static_assert(sizeof dtypes / sizeof dtypes[0] == QUANT_TYPES, "a type each");
static_assert(sizeof(struct quantize_params) == sizeof(struct dequantize_params),
              "the same fields");

static int64_t elements(const struct quantize_params *p)
{
    return atc_mul(p->outer, atc_mul(p->axis, p->inner));
}

/* Scales that the walk reaches. */
static int64_t scales(const struct quantize_params *p)
{
    int64_t last = atc_mul(p->outer - 1, p->scale_outer);
    last = atc_add(last, atc_mul((p->axis - 1) / p->block, p->scale_axis));
    return atc_add(atc_add(last, atc_mul(p->inner - 1, p->scale_inner)), 1);
}

static const char *check(const struct task_view *task, bool from_float)
{
    const struct quantize_params *p = task->params;
    if (task->n_src < 2 || task->n_src > QUANT_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->axis, p->inner, p->scale_outer, p->scale_axis,
                      p->scale_inner) ||
        p->block < 1 || p->block >= ATC_TOO_BIG || p->scale_inner > 1)
        return "a size is out of range";
    if (from_float && p->type >= QUANT_I32)
        return "nothing is quantised to this type";
    const int64_t n = elements(p);
    if (n == 0)
        return NULL;
    const enum atc_dtype type = dtypes[p->type];
    const struct atc_slot *floats = from_float ? task->src + QUANT_X : task->dst;
    const struct atc_slot *integers = from_float ? task->dst : task->src + QUANT_X;
    if (!atc_holds(task, integers, type, atc_elements_bytes(type, n), 1) ||
        !atc_holds(task, floats, DTYPE_F32, n, 4))
        return "an operand is too small or of another type";
    if (!atc_holds(task, task->src + QUANT_SCALE, DTYPE_F32, scales(p), 4))
        return "there are too few scales";
    if (!atc_holds_optional(task, QUANT_ZERO, type, atc_elements_bytes(type, scales(p)), 1))
        return "there are too few zero points, or of another type";
    return NULL;
}

static const char *check_quantize(const struct task_view *task)
{
    return check(task, true);
}

static const char *check_dequantize(const struct task_view *task)
{
    return check(task, false);
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct quantize_params *p = params;
    const int64_t runs = elements(p) == 0 ? 0 : p->outer * p->axis; /* each is a call */
    return (struct kernel_cost){.items = ceil_div(elements(p), QUANT_CHUNK),
                                .work = elements(p) / 2 + 8 * runs};
}

DEFINE_FAMILY(quantize, QUANTIZE_FIELDS, .check = check_quantize, .cost = cost);

DEFINE_FAMILY(dequantize, DEQUANTIZE_FIELDS, .check = check_dequantize, .cost = cost);

void quantize_drive(const struct kernel_args *args, const quant_fn fns[QUANT_TYPES],
                    bool from_float)
{
    const struct quantize_params *p = args->params;
    const int64_t end = min_i64(args->end * QUANT_CHUNK, elements(p));
    const enum atc_dtype type = dtypes[p->type];
    const int64_t item = atc_item_bytes((int)type); /* 0: packed */
    const int64_t x_item = from_float ? 4 : item, y_item = from_float ? item : 4;
    const uint8_t *zero = args->src[QUANT_ZERO];
    for (int64_t at = args->begin * QUANT_CHUNK; at < end;) {
        const int64_t row = at / p->inner, i = at % p->inner;
        const int64_t scale = row / p->axis * p->scale_outer +
                              row % p->axis / p->block * p->scale_axis + i * p->scale_inner;
        const struct quant_run run = {
            .x = (const uint8_t *)args->src[QUANT_X] + at * x_item,
            .y = (uint8_t *)args->dst[0] + at * y_item,
            .n = min_i64(p->inner - i, end - at),
            .scale = (const float *)args->src[QUANT_SCALE] + scale,
            .zero = zero == NULL ? NULL : zero + scale * item,
            .each = p->scale_inner == 1,
            .at = at,
            .zero_at = scale,
        };
        fns[p->type](&run);
        at += run.n;
    }
}
