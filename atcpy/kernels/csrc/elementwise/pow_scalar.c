/* pow by its definition, for every pair of types. */
#include "core/pieces.h"
#include "elementwise/pow.h"

#include <math.h>

enum { POWER_WORK = 16 }; /* of one, as a meter counts it */

/* Below zero: 1 ÷ the positive power, truncated. */
static uint64_t power(uint64_t base, uint64_t exponent, bool below_zero, struct atc_fault *fault)
{
    if (below_zero) {
        if (base == 0)
            atc_note_fault(fault, FAULT_DIVISION_BY_ZERO, (int64_t)exponent, 0);
        const bool is_unit = base == 1 || base == UINT64_MAX;
        return !is_unit ? 0 : exponent % 2 == 0 ? 1 : base;
    }
    uint64_t result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static int32_t i32_of(double x)
{
    return x > -2147483649.0 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}

static int64_t i64_of(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

#define IN_FLOAT(B, E, a, b)  ((B)pow((double)(a), (double)(b)))
#define IN_I32(B, E, a, b)    (i32_of(pow((double)(a), (double)(b))))
#define IN_I64(B, E, a, b)    (i64_of(pow((double)(a), (double)(b))))
#define IN_WHOLE(B, E, a, b)  ((B)power((uint64_t)(a), (uint64_t)(b), (E)-1 < (E)1 && (b) < (E)1 && (b) != 0, args->fault))

/* In the order of enum pow_type. */
#define EACH_PAIR(M, base, B, WITH_FLOAT, WITH_WHOLE)                                              \
    M(base, B, f32, float, WITH_FLOAT)                                                             \
    M(base, B, f64, double, WITH_FLOAT)                                                            \
    M(base, B, i32, int32_t, WITH_WHOLE)                                                           \
    M(base, B, i64, int64_t, WITH_WHOLE)                                                           \
    M(base, B, i8, int8_t, WITH_WHOLE)                                                             \
    M(base, B, i16, int16_t, WITH_WHOLE)                                                           \
    M(base, B, u8, uint8_t, WITH_WHOLE)                                                            \
    M(base, B, u16, uint16_t, WITH_WHOLE)                                                          \
    M(base, B, u32, uint32_t, WITH_WHOLE)                                                          \
    M(base, B, u64, uint64_t, WITH_WHOLE)

#define DEFINE(base, B, exponent, E, POWER)                                                        \
    static void base##_to_##exponent(struct atc_meter *meter, const struct plane *plane,           \
                                     int64_t dst_stride)                                           \
    {                                                                                              \
        const struct kernel_args *args = meter->args;                                              \
        for (int64_t r = 0; r < plane->rows && !atc_spend(meter, plane->cols * POWER_WORK); r++) { \
            const B *a = (const B *)args->src[0] + plane->src[0] + r * plane->row_stride[0];       \
            const E *b = (const E *)args->src[1] + plane->src[1] + r * plane->row_stride[1];       \
            B *y = (B *)args->dst[0] + plane->dst + r * dst_stride;                                \
            for (int64_t c = 0; c < plane->cols; c++)                                              \
                y[c] = POWER(B, E, a[c * plane->col_stride[0]], b[c * plane->col_stride[1]]);      \
        }                                                                                          \
    }

EACH_PAIR(DEFINE, f32, float, IN_FLOAT, IN_FLOAT)
EACH_PAIR(DEFINE, f64, double, IN_FLOAT, IN_FLOAT)
EACH_PAIR(DEFINE, i32, int32_t, IN_I32, IN_WHOLE)
EACH_PAIR(DEFINE, i64, int64_t, IN_I64, IN_WHOLE)

#define NAME(base, B, exponent, E, POWER) base##_to_##exponent,
static void (*const powers[][POW_U64 + 1])(struct atc_meter *meter, const struct plane *plane,
                                           int64_t dst_stride) = {
    {EACH_PAIR(NAME, f32, , , )},
    {EACH_PAIR(NAME, f64, , , )},
    {EACH_PAIR(NAME, i32, , , )},
    {EACH_PAIR(NAME, i64, , , )},
};

void pow_any_scalar(const struct kernel_args *args)
{
    const struct pow_params *p = args->params;
    const struct broadcast walk = pow_walk(p);
    struct broadcast_walk at = broadcast_begin(&walk, args);
    struct plane plane;
    struct atc_meter meter = {.args = args};
    while (broadcast_next(&at, &plane))
        powers[p->base][p->exponent](&meter, &plane, at.deal.cols);
}
