/* interp of every type but float32, plainly. */
#include "signal/interp_loops.h"

/* Cut off toward zero; NaN is 0. */
#define DEFINE_STORE(T, suffix, low, high)                                                         \
    static inline T store_##suffix(double x)                                                       \
    {                                                                                              \
        if (!(x > (double)(low)))                                                                  \
            return x == x ? (low) : 0;                                                             \
        return x < (double)(high) ? (T)x : (high);                                                 \
    }

DEFINE_STORE(int8_t, i8, INT8_MIN, INT8_MAX)
DEFINE_STORE(uint8_t, u8, 0, UINT8_MAX)
DEFINE_STORE(int16_t, i16, INT16_MIN, INT16_MAX)
DEFINE_STORE(uint16_t, u16, 0, UINT16_MAX)
DEFINE_STORE(int32_t, i32, INT32_MIN, INT32_MAX)
DEFINE_STORE(int64_t, i64, INT64_MIN, INT64_MAX)

DEFINE_INTERP(double, double, f64, AS_IT_IS)
DEFINE_INTERP(int8_t, double, i8, store_i8)
DEFINE_INTERP(uint8_t, double, u8, store_u8)
DEFINE_INTERP(int16_t, double, i16, store_i16)
DEFINE_INTERP(uint16_t, double, u16, store_u16)
DEFINE_INTERP(int32_t, double, i32, store_i32)
DEFINE_INTERP(int64_t, double, i64, store_i64)

#define ROW(type)                                                                                  \
    void interp_##type##_scalar(const struct kernel_args *args)                                    \
    {                                                                                              \
        interp_##type(args);                                                                       \
    }

ROW(f64)
ROW(i8)
ROW(u8)
ROW(i16)
ROW(u16)
ROW(i32)
ROW(i64)

/* Elements of whatever type, moved. */
void interp_any_scalar(const struct kernel_args *args)
{
    const struct interp_params *p = args->params;
    const int last = INTERP_DIMS - 1;
    const int64_t bytes = p->inner * p->item;
    const int64_t none[INTERP_DIMS - 1] = {0};
    if (!interp_tables_ok(args))
        return;
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct interp_row row = interp_row_at(args, item);
        const int64_t from =
            row.is_fill ? 0 : interp_source(p, &row, none) * p->in[last] * p->inner;
        const uint8_t *x = (const uint8_t *)args->src[INTERP_X] + (row.x + from) * p->item;
        uint8_t *y = (uint8_t *)args->dst[0] + item * p->out[last] * bytes;
        for (int64_t o = 0; o < p->out[last]; o++, y += bytes) {
            const int64_t index = row.indices[last][o];
            if (!row.is_fill && index >= 0) {
                memcpy(y, x + index * bytes, (size_t)bytes);
                continue;
            }
            for (int64_t c = 0; c < p->inner; c++)
                memcpy(y + c * p->item, &p->fill, (size_t)p->item);
        }
    }
}
