/* Elements of 8 bits and less: small floats, and integers that share bytes. */
#ifndef ATC_NARROW_H
#define ATC_NARROW_H

#include "elementwise/cast.h"

#include <math.h>
#include <string.h>

/* A small float: sign, exponent, mantissa; value (1 + m/2^mantissa) · 2^(e − bias). */
struct narrow_float {
    int bits, mantissa, bias;
    unsigned largest;  /* the bits of the largest number */
    unsigned beyond;   /* of what is larger, where that does not saturate */
    unsigned nan;      /* of NaN beside its sign */
    bool one_nan;      /* NaN has the bits of −0, which does not exist */
    bool has_infinity; /* which is `beyond` */
};

static const struct narrow_float narrow_floats[] = {
    [CAST_F8E4M3FN - CAST_F8E4M3FN] = {8, 3, 7, 0x7e, 0x7f, 0x7f, false, false},
    [CAST_F8E4M3FNUZ - CAST_F8E4M3FN] = {8, 3, 8, 0x7f, 0x80, 0x80, true, false},
    [CAST_F8E5M2 - CAST_F8E4M3FN] = {8, 2, 15, 0x7b, 0x7c, 0x7e, false, true},
    [CAST_F8E5M2FNUZ - CAST_F8E4M3FN] = {8, 2, 16, 0x7f, 0x80, 0x80, true, false},
    [CAST_F4E2M1 - CAST_F8E4M3FN] = {4, 1, 1, 0x7, 0x7, 0x8, false, false},
};

static inline bool narrow_is_float(int64_t type)
{
    return type > CAST_LAST_WHOLE && type <= CAST_F8E8M0;
}

static inline int narrow_bits(int64_t type)
{
    return type >= CAST_I2 ? 2 : type >= CAST_I4 || type == CAST_F4E2M1 ? 4 : 8;
}

/* 2^e for an exponent of double's normal range. */
static inline double power_of_two(int e)
{
    const uint64_t bits = (uint64_t)(e + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ⌊log₂ x⌋ of a normal number. */
static inline int exponent_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 52 & 0x7ff) - 1023;
}

/* The value of each pattern of bits. */
static inline void narrow_values(int64_t type, float *values)
{
    if (type == CAST_F8E8M0) {
        for (int code = 0; code < 255; code++)
            values[code] = (float)power_of_two(code - 127);
        values[255] = NAN;
        return;
    }
    const struct narrow_float *f = narrow_floats + (type - CAST_F8E4M3FN);
    const unsigned sign = 1u << (f->bits - 1), hidden = 1u << f->mantissa;
    for (unsigned code = 0; code < 2 * sign; code++) {
        const unsigned size = code & (sign - 1), e = size >> f->mantissa;
        const unsigned digits = (size & (hidden - 1)) | (e > 0 ? hidden : 0);
        double value = digits * power_of_two((e > 0 ? (int)e : 1) - f->bias - f->mantissa);
        if (size > f->largest)
            value = f->has_infinity && size == f->beyond ? INFINITY : NAN;
        values[code] = (float)((code & sign) != 0 ? -value : value);
    }
    if (f->one_nan)
        values[sign] = NAN;
}

/* Rounds to nearest even. */
static inline unsigned narrow_of(const struct narrow_float *f, double x, bool saturate)
{
    const unsigned minus = signbit(x) ? 1u << (f->bits - 1) : 0;
    const double size = fabs(x);
    unsigned code;
    if (size != size)
        return f->one_nan ? f->nan : f->nan ^ minus;
    if (size >= 0x1p20) { /* beyond every one of them */
        code = UINT32_MAX;
    } else {
        const int min_exponent = 1 - f->bias;
        const int e = size >= power_of_two(min_exponent) ? exponent_of(size) : min_exponent;
        /* The sum with 2^52 rounds to a whole number of units in the last place. */
        const double units = size * power_of_two(f->mantissa - e) + 0x1p52 - 0x1p52;
        code = ((unsigned)(e - min_exponent) << f->mantissa) + (unsigned)units;
    }
    if (code > f->largest) {
        code = saturate ? f->largest : f->beyond;
        if (!saturate && f->one_nan)
            return code;
    }
    return f->one_nan && code == 0 ? 0 : code | minus;
}

/* A power of two; those below and above range, 0 and infinity saturate or are NaN. */
static inline unsigned e8m0_of(double x, bool saturate, enum cast_round round)
{
    const double size = fabs(x);
    if (size != size)
        return 255;
    if (size < 0x1p-127)
        return saturate ? 0 : 255;
    if (size > 0x1p127)
        return saturate ? 254 : 255;
    const int e = exponent_of(size);
    const double fraction = size * power_of_two(-e) - 1;
    const bool is_raised =
        round == CAST_UP ? fraction > 0 : round == CAST_NEAREST && fraction >= 0.5;
    return (unsigned)(e + 127 + is_raised);
}

/* n fields of 2 or 4 bits into bytes, or the low bits of n bytes into fields. */
static inline unsigned field(const uint8_t *packed, int bits, int64_t i)
{
    return packed[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

static inline void pack_bits(const uint8_t *src, int bits, uint8_t *dst, int64_t n)
{
    const int each = 8 / bits;
    for (int64_t byte = 0; byte < ceil_div(n, each); byte++) {
        unsigned fields = 0;
        for (int k = 0; k < each && byte * each + k < n; k++)
            fields |= (src[byte * each + k] & ((1u << bits) - 1)) << k * bits;
        dst[byte] = (uint8_t)fields;
    }
}

static inline void read_narrow_floats(int64_t type, const uint8_t *src, const float *values,
                                      float *dst, int64_t n)
{
    const int bits = narrow_bits(type);
    for (int64_t i = 0; i < n; i++)
        dst[i] = values[bits == 8 ? src[i] : field(src, bits, i)];
}

static inline void read_narrow_ints(int64_t type, const uint8_t *src, int8_t *dst, int64_t n)
{
    const int bits = narrow_bits(type);
    const bool is_signed = type == CAST_I4 || type == CAST_I2;
    const int sign = is_signed ? 1 << (bits - 1) : 0;
    for (int64_t i = 0; i < n; i++)
        dst[i] = (int8_t)(((int)field(src, bits, i) ^ sign) - sign);
}

static inline void write_narrow_floats(const struct cast_params *p, double *src, uint8_t *dst,
                                       int64_t n)
{
    uint8_t codes[512];
    const int bits = narrow_bits(p->to);
    uint8_t *bytes = bits == 8 ? dst : codes;
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(p->to == CAST_F8E8M0
                                 ? e8m0_of(src[i], p->saturate != 0, (enum cast_round)p->round)
                                 : narrow_of(narrow_floats + (p->to - CAST_F8E4M3FN), src[i],
                                             p->saturate != 0));
    if (bits < 8)
        pack_bits(codes, bits, dst, n);
}

#endif
