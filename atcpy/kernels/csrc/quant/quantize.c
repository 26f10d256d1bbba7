/* The families quantize and dequantize: checker, and how the work is dealt. */
#include "quant/quantize.h"

#include "quant/packed.h"

#include <string.h>

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

/* Runs of elements with one scale that are so short that calls would take longer than they do. */
enum { SHORT_RUN = 32, SIDE_BY_SIDE = 1024 };

/* The scales and zero points of some elements, one each. */
struct expanded {
    int64_t n; /* 0: of none yet */
    float scales[SIDE_BY_SIDE];
    uint32_t zeros[SIDE_BY_SIDE]; /* of one to four bytes each, as the type has */
};

/* Where the scale of an element lies. */
static int64_t scale_at(const struct quantize_params *p, int64_t element)
{
    const int64_t row = element / p->inner;
    return row / p->axis * p->scale_outer + row % p->axis / p->block * p->scale_axis +
           element % p->inner * p->scale_inner;
}

/* Elements after which scales repeat; 0: they do not. */
static int64_t period(const struct quantize_params *p)
{
    const int64_t elements = atc_mul(p->axis, p->inner);
    return p->scale_outer == 0 && elements <= SIDE_BY_SIDE ? elements : 0;
}

/* Expands what up to n elements from `at` on have, unless those before them have the same; returns
 * how many elements that are. A call goes on by whole periods until its last elements.
 */
static int64_t expand(const struct kernel_args *args, int64_t item, int64_t at, int64_t n,
                      struct expanded *to)
{
    const struct quantize_params *p = args->params;
    const int64_t repeat = period(p);
    if (to->n == 0 || repeat == 0) {
        const float *scales = args->src[QUANT_SCALE];
        const uint8_t *zeros = args->src[QUANT_ZERO];
        to->n = min_i64(repeat > 0 ? SIDE_BY_SIDE / repeat * repeat : SIDE_BY_SIDE, n);
        for (int64_t i = 0; i < to->n;) {
            const int64_t scale = scale_at(p, at + i);
            const int64_t end = min_i64(i + p->inner - (at + i) % p->inner, to->n);
            for (; i < end; i++) {
                to->scales[i] = scales[scale];
                if (zeros != NULL)
                    memcpy((uint8_t *)to->zeros + i * item, zeros + scale * item, (size_t)item);
            }
        }
    }
    return min_i64(n, to->n);
}

void quantize_drive(const struct kernel_args *args, const quant_fn fns[QUANT_TYPES],
                    bool from_float)
{
    const struct quantize_params *p = args->params;
    const int64_t end = min_i64(args->end * QUANT_CHUNK, elements(p));
    const enum atc_dtype type = dtypes[p->type];
    const int64_t item = atc_item_bytes((int)type); /* 0: packed */
    const int64_t x_item = from_float ? 4 : item, y_item = from_float ? item : 4;
    const uint8_t *zero = args->src[QUANT_ZERO];
    const bool expands = item > 0 && p->scale_inner == 0 && p->inner <= SHORT_RUN &&
                         (p->scale_outer != 0 || p->scale_axis != 0);
    struct expanded each;
    each.n = 0;
    for (int64_t at = args->begin * QUANT_CHUNK; at < end;) {
        struct quant_run run = {
            .x = (const uint8_t *)args->src[QUANT_X] + at * x_item,
            .y = (uint8_t *)args->dst[0] + at * y_item,
            .at = at,
        };
        if (expands) {
            run.n = expand(args, item, at, end - at, &each);
            run.scale = each.scales;
            run.zero = zero == NULL ? NULL : each.zeros;
            run.each = true;
        } else {
            run.zero_at = scale_at(p, at);
            run.n = min_i64(p->inner - at % p->inner, end - at);
            run.scale = (const float *)args->src[QUANT_SCALE] + run.zero_at;
            run.zero = zero == NULL ? NULL : zero + run.zero_at * item;
            run.each = p->scale_inner == 1;
        }
        fns[p->type](&run);
        at += run.n;
    }
}
