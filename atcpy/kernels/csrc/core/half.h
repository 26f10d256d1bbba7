/* The 16-bit floats, by their bits, without branches that would keep loops from becoming vectors.
 */
#ifndef ATC_HALF_H
#define ATC_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float f32_of_bf16(uint16_t half)
{
    return f32_of_bits((uint32_t)half << 16);
}

/* Rounds to nearest even; NaN stays NaN. */
static inline uint16_t bf16_of_f32(float x)
{
    const uint32_t bits = bits_of_f32(x);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

/* The exponent moves to its place in a float; the multiplication scales it, and normalises what
 * lies below the normal range.
 */
static inline float f32_of_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fffu;
    const uint32_t finite = bits_of_f32(f32_of_bits(rest << 13) * 0x1p112f);
    const uint32_t infinite = rest << 13 | 0x7f800000 | (rest > 0x7c00 ? 0x400000u : 0);
    return f32_of_bits(sign | (rest >= 0x7c00 ? infinite : finite));
}

/* Rounds to nearest even: in the normal range on the bits, below it by a float sum whose last place
 * is that of the smallest half. NaN keeps what it has room for, as x86 does it.
 */
static inline uint16_t f16_of_f32(float x)
{
    const uint32_t bits = bits_of_f32(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    const uint32_t normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    const uint32_t small = bits_of_f32(f32_of_bits(size) + 0.5f) - 0x3f000000;
    const uint32_t infinite = size > 0x7f800000 ? 0x7e00 | (size >> 13 & 0x3ff) : 0x7c00;
    const uint32_t rounded = size < 0x38800000 ? small : normal;
    return (uint16_t)(sign | (size >= 0x477ff000 ? infinite : rounded));
}

/* Rounded to odd, a float keeps what a second, shorter rounding needs to be the only one. */
static inline float f32_to_odd(double x)
{
    const float nearest = (float)x;
    const uint32_t bits = bits_of_f32(nearest);
    const int is_exact = (double)nearest == x || x != x || (bits & 1) != 0;
    const int is_beyond = fabs((double)nearest) > fabs(x);
    return is_exact ? nearest : f32_of_bits(is_beyond ? bits - 1 : bits + 1);
}

static inline uint16_t f16_of_f64(double x)
{
    return f16_of_f32(f32_to_odd(x));
}

static inline uint16_t bf16_of_f64(double x)
{
    return bf16_of_f32(f32_to_odd(x));
}

#endif
