/* quant_range, by loops that the compiler makes vectors of. */
#include "core/pieces.h"
#include "quant/quant_range.h"

#include <math.h>

struct range {
    float low[RANGE_LANES], high[RANGE_LANES];
};

static inline void widen(struct range *r, int lane, float x)
{
    r->low[lane] = x < r->low[lane] ? x : r->low[lane];
    r->high[lane] = x > r->high[lane] ? x : r->high[lane];
}

static void widen_by(struct atc_meter *meter, struct range *r, const float *x, int64_t n)
{
    if (atc_spend(meter, n))
        return;
    struct range own = *r; /* in registers: x might be r */
    for (struct atc_piece piece = {0}; atc_next_piece(meter->args, &piece, n);) {
        int64_t i = piece.begin;
        for (; i + RANGE_LANES <= piece.end; i += RANGE_LANES)
            for (int lane = 0; lane < RANGE_LANES; lane++)
                widen(&own, lane, x[i + lane]);
        for (; i < piece.end; i++)
            widen(&own, 0, x[i]);
    }
    *r = own;
}

static void range_of(const struct kernel_args *args)
{
    const struct quant_range_params *p = args->params;
    struct range r = {{0}, {0}}; /* 0 is always in it */
    const float *x = args->src[0];
    struct atc_meter meter = {.args = args};
    const int64_t block = p->pixels * p->c0;
    if (p->c_last == p->c0)
        widen_by(&meter, &r, x, p->planes * p->c1 * block);
    else
        for (int64_t b = 0; b < p->planes * p->c1 && !atc_spend(&meter, 1); b++, x += block) {
            if ((b + 1) % p->c1 != 0)
                widen_by(&meter, &r, x, block);
            else
                for (int64_t pixel = 0; pixel < p->pixels && !atc_spend(&meter, 1); pixel++)
                    widen_by(&meter, &r, x + pixel * p->c0, p->c_last);
        }
    for (int lane = 1; lane < RANGE_LANES; lane++) {
        widen(&r, 0, r.low[lane]);
        widen(&r, 0, r.high[lane]);
    }
    const float scale = r.low[0] == r.high[0] ? 1 : (r.high[0] - r.low[0]) / 255;
    const float zero = rintf(-r.low[0] / scale);
    *(float *)args->dst[RANGE_SCALE] = scale;
    *(uint8_t *)args->dst[RANGE_ZERO] = zero > 0 ? (zero < 255 ? (uint8_t)zero : 255) : 0;
}

void FOR_ISA(quant_range_f32)(const struct kernel_args *args)
{
    range_of(args);
}
