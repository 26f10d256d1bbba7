/* Functions of a double that the compiler makes vectors of, accurate to 1e-10: results that are
 * rounded to float. Polynomials are Chebyshev interpolations over the whole range that they are
 * for, or Taylor's series where that is as short.
 */
#ifndef ATC_ANGLE_VECTOR_H
#define ATC_ANGLE_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))

/* a · b + c, in one instruction where the CPU has it */
ALWAYS double fused(double a, double b, double c)
{
#ifdef __FP_FAST_FMA
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* Σ c[i] · x^i, n ≥ 2, in two chains: what one of Horner's waits for takes longer than the sums */
ALWAYS double polynomial(double x, const double *c, int n)
{
    const double square = x * x;
    double first = c[n - 1], second = c[n - 2];
    for (int i = n - 3; i > 0; i -= 2) {
        first = fused(first, square, c[i]);
        second = fused(second, square, c[i - 1]);
    }
    return n % 2 == 0 ? fused(first, x, second) : fused(second, x, fused(first, square, c[0]));
}

enum { MAX_TURN = 100000 }; /* beyond, π/2 would take more bits than two doubles */

/* sin and cos of x − q · π/2, |x − q · π/2| ≤ π/4, and q */
struct turn {
    double sine, cosine;
    int32_t quarter;
};

ALWAYS struct turn turn_by(double r, int32_t quarter)
{
    static const double sine[] = {1.0 / -6, 1.0 / 120, 1.0 / -5040, 1.0 / 362880, 1.0 / -39916800};
    static const double cosine[] = {1.0 / -2,    1.0 / 24,       1.0 / -720,
                                    1.0 / 40320, 1.0 / -3628800, 1.0 / 479001600};
    const double square = r * r;
    return (struct turn){r + r * square * polynomial(square, sine, 5),
                         1 + square * polynomial(square, cosine, 6), quarter};
}

ALWAYS struct turn turn_of(double x)
{
    const double q = rint(x * 0.63661977236758138);
    const double near = __builtin_fma(-q, 1.5707963267948966, x);
    return turn_by(__builtin_fma(-q, 6.123233995736766e-17, near), (int32_t)q);
}

ALWAYS double sine_of_turn(struct turn t)
{
    const double y = t.quarter & 1 ? t.cosine : t.sine;
    return t.quarter & 2 ? -y : y;
}

ALWAYS double cosine_of_turn(struct turn t)
{
    const double y = t.quarter & 1 ? t.sine : t.cosine;
    return (t.quarter + 1) & 2 ? -y : y;
}

/* sin(x + shift · π) for a shift of 0 or ½: (−1)^q · sin r with r = x − (q − shift) · π, |r| ≤ π/2
 */
ALWAYS double shifted_sine(double x, double shift)
{
    static const double sine[] = {0.99999999999994959,    -0.16666666666466673,
                                  0.0083333333203583477,  -0.00019841266683130203,
                                  2.7556952912801796e-06, -2.503026818617475e-08,
                                  1.5411219703078791e-10};
    /* The lowest bit of this double is that of the integer q. */
    const double at_units = fused(x, 0.31830988618379067, shift) + 0x1.8p52;
    const double turns = at_units - 0x1.8p52 - shift;
    const double near = __builtin_fma(-turns, 3.1415926535897931, x);
    const double r = __builtin_fma(-turns, 1.2246467991473532e-16, near);
    double y = r * polynomial(r * r, sine, 7);
    uint64_t bits, sign;
    memcpy(&sign, &at_units, sizeof sign);
    memcpy(&bits, &y, sizeof bits);
    bits ^= sign << 63;
    memcpy(&y, &bits, sizeof y);
    return y;
}

ALWAYS double sine_of(double x)
{
    return shifted_sine(x, 0); /* the sign of zero stays */
}

ALWAYS double cosine_of(double x)
{
    return shifted_sine(x, 0.5);
}

ALWAYS double tangent_of(double x)
{
    const struct turn t = turn_of(x);
    const double above = t.quarter & 1 ? -t.cosine : t.sine;
    return x == 0 ? x : above / (t.quarter & 1 ? t.sine : t.cosine);
}

/* atan z = z · p(z²) for |z| ≤ 1, π/2 − atan(1/z) beyond */
ALWAYS double arctangent_of(double x)
{
    static const double c[] = {
        0.99999999992930155,  -0.33333331290857771,  0.19999901101290121,  -0.14283813245671934,
        0.11091922902426976,  -0.089741717367436066, 0.072282778424020477, -0.053956673284119468,
        0.033826212304726752, -0.015828319131590735, 0.004732483163631211, -0.00066339535017808282};
    const double size = fabs(x), inverse = 1 / size, z = inverse < size ? inverse : size;
    const double near = z * polynomial(z * z, c, 12);
    return copysign(size > 1 ? 1.5707963267948966 - near : near, x);
}

/* asin z for z = |x| up to 1/2; asin x = π/2 − 2 · asin z for z = √((1 − |x|) / 2) beyond. z² is
 * the smaller of both squares, so that there is one polynomial.
 */
ALWAYS double arcsine_of(double x)
{
    static const double c[] = {0.99999999998635369,   0.16666667364186447,  0.074999419087547189,
                               0.044661139308668961,  0.030102506899661489, 0.024650862660604088,
                               0.0074010072390753795, 0.034748424808083898};
    const double size = fabs(x), near = size * size, far = fused(size, -0.5, 0.5);
    const double square = far < near ? far : near, y = sqrt(square) * polynomial(square, c, 8);
    return copysign(size > 0.5 ? fused(y, -2, 1.5707963267948966) : y, x);
}

/* What a double loses near x = 1 is far below a float's last bit. */
ALWAYS double arccosine_of(double x)
{
    return 1.5707963267948966 - arcsine_of(x);
}

/* log2 a for a > 0 that no double is subnormal for: log2 m = 2/ln 2 · atanh s with
 * s = (m − 1) / (m + 1) for m in [√½, √2)
 */
ALWAYS double log2_of(double a)
{
    static const double logarithm[] = {
        2.8853900817779268,  0.96179669392597556, 0.57707801635558531, 0.41219858311113239,
        0.32059889797532520, 0.26230818925253882, 0.22195308321368667, 0.19235933878519511};
    /* Logical shifts, and integers in the low bits of doubles: few CPUs have instructions for
     * arithmetic shifts and conversions of 64 bits. √½ is 0x3fe6a09e667f3bcd.
     */
    uint64_t bits, exponent;
    memcpy(&bits, &a, sizeof bits);
    exponent = (bits + (UINT64_C(0x4000000000000000) - UINT64_C(0x3fe6a09e667f3bcd))) >> 52;
    bits -= (exponent - 1024) << 52;
    exponent |= UINT64_C(0x4330000000000000); /* 2^52 + exponent */
    double whole_log;
    memcpy(&whole_log, &exponent, sizeof whole_log);
    whole_log -= 0x1p52 + 1024;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1);
    return whole_log + s * polynomial(s * s, logarithm, 8);
}

/* a^b = 2^(b · log2 a) for such an a, and results within double's range */
ALWAYS double power_of(double a, double b)
{
    static const double power[] = {1,
                                   0.69314718055994531,
                                   0.24022650695910072,
                                   0.055504108664821580,
                                   0.0096181291076284772,
                                   0.0013333558146428443,
                                   1.5403530393381609e-4,
                                   1.5252733804059840e-5,
                                   1.3215486790144309e-6,
                                   1.0178086009239699e-7};
    double t = b * log2_of(a);
    t = t < -1000 ? -1000 : t > 1000 ? 1000 : t; /* 0 or infinity in float */
    const double whole = rint(t), sum = whole + (0x1.8p52 + 1023);
    uint64_t bits;
    double scale;
    memcpy(&bits, &sum, sizeof bits);
    bits <<= 52; /* of NaN this is anything, and the result NaN */
    memcpy(&scale, &bits, sizeof scale);
    return polynomial(t - whole, power, 10) * scale;
}

#endif
