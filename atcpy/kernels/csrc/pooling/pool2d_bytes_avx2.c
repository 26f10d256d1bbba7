/* pool2d: the largest of bytes, in blocks of 16 channels. */
#include "pooling/pool2d.h"

#include <immintrin.h>

enum { C0 = 16 };

static inline __m128i load(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
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
        const int64_t y0 = item % p->oh * p->sh - p->pt;
        const struct pool2d_taps y = taps_inside(y0, p->kh, p->dh, p->h);
        const uint8_t *plane = (const uint8_t *)args->src[0] + item / p->oh * p->h * p->w * C0;
        uint8_t *dst = (uint8_t *)args->dst[0] + item * p->ow * C0;
        for (int64_t ox = 0; ox < p->ow && !(is_long && atc_spend(&meter, 1)); ox++, dst += C0) {
            const int64_t x0 = ox * p->sw - p->pl;
            const struct pool2d_taps x = taps_inside(x0, p->kw, p->dw, p->w);
            __m128i best = _mm_setzero_si128();
            const int64_t taps = x.last > x.first ? x.last - x.first : 0;
            for (int64_t i = y.first;
                 i < y.last && taps > 0 && !(is_long && atc_spend(&meter, taps)); i++) {
                const uint8_t *at = plane + ((y0 + i * p->dh) * p->w + x0 + x.first * p->dw) * C0;
                for (struct atc_piece row = {x.first, x.first};
                     pool2d_next_taps(args, is_long, &row, x.last);)
                    for (int64_t j = row.begin; j < row.end; j++, at += p->dw * C0)
                        best = _mm_max_epu8(best, _mm_xor_si128(load(at), sign));
            }
            _mm_storeu_si128((__m128i *)(void *)dst, _mm_xor_si128(best, sign));
        }
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
