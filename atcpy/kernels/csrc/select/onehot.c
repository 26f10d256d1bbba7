/* onehot: along the middle dim of the result, `on` where the index says, `off` elsewhere.
 *
 *     indices  [outer, inner], numbers of type `dtype`; floats are cut to integers
 *     values   [off, on], elements of `item` bytes
 *     y        [outer, depth, inner]
 *
 * An index in [-depth, -1] counts from the end; any other outside [0, depth) is nowhere.
 *
 * All off, then those on that are named.
 */
#include "core/half.h"
#include "core/index.h"
#include "core/pieces.h"

#define ONEHOT_FIELDS(I64, I64S, F64, ENUM) I64(outer) I64(depth) I64(inner) I64(item) I64(dtype)
DECLARE_PARAMS(onehot, ONEHOT_FIELDS)

enum { ONEHOT_INDICES, ONEHOT_VALUES, ONEHOT_OPERANDS };

static const char *check(const struct task_view *task)
{
    const struct onehot_params *p = task->params;
    if (task->n_src != ONEHOT_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->depth, p->inner))
        return "a size is out of range";
    const struct atc_slot *indices = task->src + ONEHOT_INDICES;
    if (!atc_is_item(p->item) || p->dtype != indices->dtype || !atc_is_number(indices->dtype))
        return "items or indices are of an unknown type";
    const int64_t lanes = atc_mul(p->outer, p->inner);
    if (!atc_holds(task, indices, DTYPE_ANY, lanes, atc_item_bytes(indices->dtype)) ||
        !atc_holds(task, task->src + ONEHOT_VALUES, DTYPE_ANY, 2, p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, atc_mul(lanes, p->depth), p->item))
        return "an operand is too small";
    return NULL;
}

/* An item is one index of `outer`. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct onehot_params *p = params;
    return (struct kernel_cost){.items = p->depth == 0 || p->inner == 0 ? 0 : p->outer,
                                .work = atc_mul(atc_mul(p->outer, p->inner), atc_add(p->depth, 4))};
}

DEFINE_FAMILY(onehot, ONEHOT_FIELDS, .check = check, .cost = cost);

#define READ(number, type, value)                                                                  \
    case number: {                                                                                 \
        type x;                                                                                    \
        memcpy(&x, (const uint8_t *)indices + at * (int64_t)sizeof x, sizeof x);                   \
        return value;                                                                              \
    }

/* What is beyond any index, NaN included, becomes one that is nowhere. */
static int64_t of_f64(double x)
{
    return x > -0x1p62 && x < 0x1p62 ? (int64_t)x : INT64_MIN;
}

static int64_t read_number(const void *indices, int64_t at, int64_t dtype)
{
    switch (dtype) {
        READ(DTYPE_F32, float, of_f64((double)x))
        READ(DTYPE_F64, double, of_f64(x))
        READ(DTYPE_F16, uint16_t, of_f64((double)f32_of_f16(x)))
        READ(DTYPE_BF16, uint16_t, of_f64((double)f32_of_bf16(x)))
        READ(DTYPE_I8, int8_t, x)
        READ(DTYPE_I16, int16_t, x)
        READ(DTYPE_I32, int32_t, x)
        READ(DTYPE_I64, int64_t, x)
        READ(DTYPE_U16, uint16_t, x)
        READ(DTYPE_U32, uint32_t, x)
        READ(DTYPE_U64, uint64_t, x < UINT64_C(1) << 62 ? (int64_t)x : INT64_MIN)
        READ(DTYPE_U8, uint8_t, x)
    default:
        return ((const uint8_t *)indices)[at] != 0;
    }
}

/* Writes n items equal to `one`. */
static void fill(uint8_t *y, const uint8_t *one, int64_t item, int64_t n)
{
    if (item == 4) {
        uint32_t value, *words = (uint32_t *)(void *)y;
        memcpy(&value, one, sizeof value);
        for (int64_t i = 0; i < n; i++)
            words[i] = value;
    } else if (item == 8) {
        uint64_t value, *words = (uint64_t *)(void *)y;
        memcpy(&value, one, sizeof value);
        for (int64_t i = 0; i < n; i++)
            words[i] = value;
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * item, one, (size_t)item);
    }
}

void onehot_any_scalar(const struct kernel_args *args)
{
    const struct onehot_params *p = args->params;
    const int64_t item = p->item, block = p->depth * p->inner;
    const uint8_t *off = args->src[ONEHOT_VALUES], *on = off + item;
    for (int64_t outer = args->begin; outer < args->end; outer++) {
        uint8_t *y = (uint8_t *)args->dst[0] + outer * block * item;
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, block);)
            fill(y + piece.begin * item, off, item, piece.end - piece.begin);
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->inner);)
            for (int64_t i = piece.begin; i < piece.end; i++) {
                int64_t at = read_number(args->src[ONEHOT_INDICES], outer * p->inner + i, p->dtype);
                if (at < -p->depth || at >= p->depth)
                    continue;
                at += at < 0 ? p->depth : 0;
                memcpy(y + (at * p->inner + i) * item, on, (size_t)item);
            }
    }
}
