/* onehot, plainly: all off, then those on that are named. */
#include "select/onehot.h"

#include <string.h>

#include "core/half.h"

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

void onehot_any_scalar(const struct kernel_args *args)
{
    const struct onehot_params *p = args->params;
    const int64_t item = p->item, block = p->depth * p->inner;
    const uint8_t *off = args->src[ONEHOT_VALUES], *on = off + item;
    for (int64_t outer = args->begin; outer < args->end; outer++) {
        uint8_t *y = (uint8_t *)args->dst[0] + outer * block * item;
        for (int64_t i = 0; i < block; i++)
            memcpy(y + i * item, off, (size_t)item);
        for (int64_t i = 0; i < p->inner; i++) {
            int64_t at = read_number(args->src[ONEHOT_INDICES], outer * p->inner + i, p->dtype);
            if (at < -p->depth || at >= p->depth)
                continue;
            at += at < 0 ? p->depth : 0;
            memcpy(y + (at * p->inner + i) * item, on, (size_t)item);
        }
    }
}
