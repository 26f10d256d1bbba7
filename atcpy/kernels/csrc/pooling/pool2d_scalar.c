/* pool2d by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "pooling/pool2d.h"

#include <math.h>

#define DEFINE_MAX(T, name, lowest)                                                                 \
    static inline __attribute__((always_inline)) T name(struct atc_meter *meter, bool is_long, const T *plane, int64_t oy, int64_t ox)                 \
    {                                                                                              \
        const struct pool2d_params *p = meter->args->params;                                       \
        const int64_t y0 = oy * p->sh - p->pt, x0 = ox * p->sw - p->pl;                            \
        const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);                          \
        const struct pool2d_taps x = taps_inside(x0, p->kw, p->dw, p->w);                          \
        T best = lowest;                                                                            \
        const int64_t taps = x.last > x.first ? x.last - x.first : 0;                              \
        for (int64_t i = y.first; i < y.last && !(is_long && atc_spend(meter, taps)); i++)                      \
            for (struct atc_piece at = {x.first, x.first};                                         \
                 pool2d_next_taps(meter->args, is_long, &at, x.last);)                    \
                for (int64_t j = at.begin; j < at.end; j++) {                                      \
                    const T v = plane[((y0 + i * p->dh) * p->w + x0 + j * p->dw) * p->c0];         \
                    best = v > best || v != v ? v : best;                                          \
                }                                                                                  \
        return best;                                                                               \
    }

/* Rows of the window are summed first: the error grows with its sides, not with its area. */
#define DEFINE_AVG(T, name)                                                                        \
    static inline __attribute__((always_inline)) T name(struct atc_meter *meter, bool is_long, const T *plane, int64_t oy, int64_t ox)                 \
    {                                                                                              \
        const struct pool2d_params *p = meter->args->params;                                       \
        const int64_t y0 = oy * p->sh - p->pt, x0 = ox * p->sw - p->pl;                            \
        const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);                          \
        const struct pool2d_taps x = taps_inside(x0, p->kw, p->dw, p->w);                          \
        T sum = 0;                                                                                 \
        const int64_t taps = x.last > x.first ? x.last - x.first : 0;                              \
        for (int64_t i = y.first; i < y.last && !(is_long && atc_spend(meter, taps)); i++) {                    \
            T row = 0;                                                                             \
            for (struct atc_piece at = {x.first, x.first};                                         \
                 pool2d_next_taps(meter->args, is_long, &at, x.last);)                    \
                for (int64_t j = at.begin; j < at.end; j++)                                        \
                    row += plane[((y0 + i * p->dh) * p->w + x0 + j * p->dw) * p->c0];              \
            sum += row;                                                                            \
        }                                                                                          \
        const int64_t divisor = pool2d_divisor(p, oy, ox, y, x);                                   \
        return divisor > 0 ? sum / (T)divisor : 0;                                                 \
    }

#define DEFINE_POOL2D(T, symbol, max, avg)                                                         \
    static inline __attribute__((always_inline)) void symbol##_rows(const struct kernel_args *args, bool is_long) \
    {                                                                                              \
        const struct pool2d_params *p = args->params;                                              \
        const T *src = args->src[0];                                                               \
        T *dst = args->dst[0];                                                                     \
        struct atc_meter meter = {.args = args};                                                   \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t plane = item / p->oh, oy = item % p->oh;                                 \
            for (int64_t ox = 0; ox < p->ow && !(is_long && atc_spend(&meter, 1)); ox++)                        \
                for (int64_t c = 0; c < p->c0; c++) {                                              \
                    const T *x = src + plane * p->h * p->w * p->c0 + c;                            \
                    dst[(item * p->ow + ox) * p->c0 + c] =                                         \
                        p->kind == POOL_MAX ? max(&meter, is_long, x, oy, ox) : avg(&meter, is_long, x, oy, ox);               \
                }                                                                                  \
        }                                                                                          \
    } \
                                                                                                   \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        if (pool2d_is_long(args->params))                                                          \
            symbol##_rows(args, true);                                                             \
        else                                                                                       \
            symbol##_rows(args, false);                                                            \
    }

DEFINE_MAX(float, max_f32, -INFINITY)
DEFINE_AVG(float, avg_f32)
DEFINE_POOL2D(float, pool2d_f32_scalar, max_f32, avg_f32)

DEFINE_MAX(double, max_f64, -(double)INFINITY)
DEFINE_AVG(double, avg_f64)
DEFINE_POOL2D(double, pool2d_f64_scalar, max_f64, avg_f64)

/* The checker refuses means of integers. */
DEFINE_MAX(int8_t, max_i8, INT8_MIN)
DEFINE_POOL2D(int8_t, pool2d_i8_scalar, max_i8, max_i8)

DEFINE_MAX(uint8_t, max_u8, 0)
DEFINE_POOL2D(uint8_t, pool2d_u8_scalar, max_u8, max_u8)
