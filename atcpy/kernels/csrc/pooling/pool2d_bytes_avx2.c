/* pool2d: the largest of bytes, in blocks of 16 channels. */
#include "pooling/pool2d.h"

#include <immintrin.h>

enum { C0 = 16 };

static inline __m128i load(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Results [ox, end), all of whose columns lie inside: `rows` rows from `first_row` on. The width
 * and `sign`, which is zero or not, are constants where this is inlined.
 */
static inline __attribute__((always_inline)) void max_inside(const struct pool2d_params *p,
                                                             __m128i sign, int64_t kw,
                                                             const uint8_t *first_row, int64_t rows,
                                                             int64_t ox, int64_t end, uint8_t *dst)
{
    for (; ox < end; ox++) {
        const uint8_t *window = first_row + (ox * p->sw - p->pl) * C0;
        __m128i best = _mm_setzero_si128();
        for (int64_t i = 0; i < rows; i++, window += p->dh * p->w * C0)
#pragma GCC unroll 3
            for (int64_t j = 0; j < kw; j++)
                best = _mm_max_epu8(best, _mm_xor_si128(load(window + j * p->dw * C0), sign));
        _mm_storeu_si128((__m128i *)(void *)(dst + ox * C0), _mm_xor_si128(best, sign));
    }
}

/* A result whose window may reach into the padding. */
static inline __attribute__((always_inline)) void max_of(struct atc_meter *meter, __m128i sign,
                                                         bool is_long, const uint8_t *plane,
                                                         int64_t oy, int64_t ox, uint8_t *dst)
{
    const struct pool2d_params *p = meter->args->params;
    const int64_t y0 = oy * p->sh - p->pt, x0 = ox * p->sw - p->pl;
    const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);
    const struct pool2d_taps x = taps_inside(x0, p->kw, p->dw, p->w);
    __m128i best = _mm_setzero_si128();
    const int64_t taps = x.last > x.first ? x.last - x.first : 0;
    for (int64_t i = y.first; i < y.last && taps > 0 && !(is_long && atc_spend(meter, taps)); i++) {
        const uint8_t *at = plane + ((y0 + i * p->dh) * p->w + x0 + x.first * p->dw) * C0;
        for (struct atc_piece row = {x.first, x.first};
             pool2d_next_taps(meter->args, is_long, &row, x.last);)
            for (int64_t j = row.begin; j < row.end; j++, at += p->dw * C0)
                best = _mm_max_epu8(best, _mm_xor_si128(load(at), sign));
    }
    _mm_storeu_si128((__m128i *)(void *)(dst + ox * C0), _mm_xor_si128(best, sign));
}

/* A row of results: those at its ends are asked tap by tap. */
static inline __attribute__((always_inline)) void
max_short_row(struct atc_meter *meter, __m128i sign, const uint8_t *plane, int64_t oy, uint8_t *dst)
{
    const struct pool2d_params *p = meter->args->params;
    const int64_t y0 = oy * p->sh - p->pt;
    const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);
    const struct pool2d_results inside = results_inside(p);
    const int64_t rows = y.last - y.first;
    const uint8_t *first_row = rows > 0 ? plane + (y0 + y.first * p->dh) * p->w * C0 : plane;
    for (int64_t ox = 0; ox < inside.first; ox++)
        max_of(meter, sign, false, plane, oy, ox, dst);
    if (p->kw == 2)
        max_inside(p, sign, 2, first_row, rows, inside.first, inside.last, dst);
    else if (p->kw == 3)
        max_inside(p, sign, 3, first_row, rows, inside.first, inside.last, dst);
    else
        max_inside(p, sign, p->kw, first_row, rows, inside.first, inside.last, dst);
    for (int64_t ox = inside.last; ox < p->ow; ox++)
        max_of(meter, sign, false, plane, oy, ox, dst);
}

/* Bytes are compared as unsigned ones; `flip` makes such of signed ones. `is_long` is a constant
 * where this is inlined.
 */
static inline __attribute__((always_inline)) void max_rows(const struct kernel_args *args,
                                                           uint8_t flip, bool is_long)
{
    const struct pool2d_params *p = args->params;
    struct atc_meter meter = {.args = args};
    const __m128i sign = _mm_set1_epi8((char)flip);
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t oy = item % p->oh;
        const uint8_t *plane = (const uint8_t *)args->src[0] + item / p->oh * p->h * p->w * C0;
        uint8_t *dst = (uint8_t *)args->dst[0] + item * p->ow * C0;
        if (!is_long)
            max_short_row(&meter, sign, plane, oy, dst);
        for (int64_t ox = 0; is_long && ox < p->ow && !atc_spend(&meter, 1); ox++)
            max_of(&meter, sign, true, plane, oy, ox, dst);
    }
}

void pool2d_u8_avx2(const struct kernel_args *args)
{
    if (pool2d_is_long(args->params))
        max_rows(args, 0, true);
    else
        max_rows(args, 0, false);
}

void pool2d_i8_avx2(const struct kernel_args *args)
{
    if (pool2d_is_long(args->params))
        max_rows(args, 0x80, true);
    else
        max_rows(args, 0x80, false);
}
