/* The floats of 8 bits, by their bits. The exponent moves to its place in a float32; the
 * multiplication scales it, and normalises what lies below the normal range.
 */
#ifndef ATC_FLOAT8_H
#define ATC_FLOAT8_H

#include <math.h>

#include "core/half.h"

static inline float f32_of_e4m3(uint8_t x, float scale)
{
    const float magnitude = f32_of_bits((uint32_t)(x & 0x7f) << 20) * scale;
    return x & 0x80 ? -magnitude : magnitude;
}

static inline float f32_of_e4m3fn(uint8_t x)
{
    return (x & 0x7f) == 0x7f ? NAN : f32_of_e4m3(x, 0x1p120f);
}

static inline float f32_of_e4m3fnuz(uint8_t x)
{
    return x == 0x80 ? NAN : f32_of_e4m3(x, 0x1p119f);
}

/* The upper half of a float16. */
static inline float f32_of_e5m2(uint8_t x)
{
    return f32_of_f16((uint16_t)(x << 8));
}

/* Half of a float16 whose greatest exponent is an ordinary one. */
static inline float f32_of_e5m2fnuz(uint8_t x)
{
    const float magnitude = f32_of_bits((uint32_t)(x & 0x7f) << 21) * 0x1p111f;
    return x == 0x80 ? NAN : x & 0x80 ? -magnitude : magnitude;
}

#endif
