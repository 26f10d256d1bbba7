/* Elementary functions on a vector of floats.
 * Errors in ulp are those that tests/ops/elementwise/test_elementwise.py allows, against float64.
 * NaN passes, infinities and results below the normal range come out as C's own functions give
 * them.
 */
#ifndef ATC_MATH_VECTOR_H
#define ATC_MATH_VECTOR_H

#include "simd/vector.h"

/* e^r − 1 for r = x − n·ln 2, |r| ≤ ln 2 / 2 */
static inline vf vf_expm1_of_rest(vf x, vf n)
{
    vf r = vf_fnma(n, vf_set1(0.693145752f), x); /* ln 2 in two parts; the first product is exact */
    r = vf_fnma(n, vf_set1(1.42860677e-6f), r);
    vf q = vf_set1(1.38825073e-3f);
    q = vf_fma(q, r, vf_set1(8.36659595e-3f));
    q = vf_fma(q, r, vf_set1(4.16672006e-2f));
    q = vf_fma(q, r, vf_set1(0.166665435f));
    q = vf_fma(q, r, vf_set1(0.49999997f));
    return vf_fma(q, r * r, r);
}

#ifdef __AVX512F__
/* Splits e^x = (p + 1) · power and returns p; −87 ≤ x ≤ 88. */
static inline vf vf_expm1_split(vf x, vf *power)
{
    const vf n = vf_round(x * vf_set1(1.44269504f));
    *power = vf_scale(vf_set1(1.0f), n);
    return vf_expm1_of_rest(x, n);
}

/* Splits e^x = m · 2^⌊n⌋ and returns m; −104 ≤ x ≤ 89. With x = n·ln 2 + r for a multiple n of
 * 1/16, |r| ≤ ln 2 / 32: m is e^r times a root of 2, of which a table has what rounding it leaves
 * out, too.
 */
static inline vf vf_exp_split(vf x, vf *n)
{
    static const float roots[VF] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f,
                                    1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                                    1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                    1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
    static const float rests[VF] = {0.0f,
                                    4.83347016e-08f,
                                    -1.30775399e-08f,
                                    5.38622231e-08f,
                                    3.79763527e-08f,
                                    4.4968381e-08f,
                                    -4.01899953e-08f,
                                    -1.01233493e-08f,
                                    2.4203235e-08f,
                                    -4.50089885e-08f,
                                    8.07090483e-09f,
                                    9.83621717e-09f,
                                    -2.47553267e-08f,
                                    -9.23577037e-09f,
                                    -1.1239278e-08f,
                                    9.84532811e-09f};
    /* So large that the last bit of a sum is worth 1/16: its low four bits are the root's number.
     */
    const vf shift = vf_set1(0x1.8p19f), sum = vf_fma(x, vf_set1(1.44269504f), shift);
    *n = sum - shift;
    vf r = vf_fnma(*n, vf_set1(0.693145752f), x); /* as below */
    r = vf_fnma(*n, vf_set1(1.42860677e-6f), r);
    const vf root = vf_pick(roots, sum), rest = vf_pick(rests, sum);
    const vf q = vf_fma(vf_set1(0.166666667f), r, vf_set1(0.5f));
    return root + vf_fma(vf_fma(q, r * r, r), root, rest);
}

/* e^x times this; −104 ≤ x ≤ 43. What is below the normal range is no slower, nor less exact. */
static const float vf_exp_scale = 1.0f, vf_exp_lowest = -104.0f;
static inline vf vf_exp_scaled(vf x)
{
    vf n;
    const vf m = vf_exp_split(x, &n);
    return vf_scale(m, n);
}

/* The same for x ≤ 0, however small */
static inline vf vf_exp_scaled_of_negative(vf x)
{
    const vf lowest = vf_set1(vf_exp_lowest);
    const vf e = vf_exp_scaled(vf_at_least(lowest, x));
    return vf_select(vf_lt(x, lowest), vf_set1(0.0f), e);
}
#else
/* Returns the whole number n nearest to a · b, and a number whose low nine bits are those of
 * n + offset + 127, where that is in [0, 511]: the sum is so large that its last bit is worth 1.
 */
static inline vf vf_whole(vf a, vf b, int offset, vf *bits)
{
    const vf shift = vf_set1(0x1.8p23f + (float)(offset + 127));
    *bits = vf_fma(a, b, shift);
    return *bits - shift;
}

/* 2^(n + offset) for n + offset in [−126, 127], and infinite for 128 */
static inline vf vf_power(vf bits)
{
    return (vf)((vu)bits << 23);
}

/* x · 2^n for x in [1/2, 2], |n| ≤ 250 and an offset of 127; results below the normal range
 * round once, as the first of the two factors leaves such an x normal
 */
static inline vf vf_scale(vf x, vf bits)
{
    const vu whole = (vu)bits, half = whole >> 1;
    return x * (vf)(half << 23) * (vf)((whole - half) << 23);
}

/* Splits e^x = (p + 1) · power and returns p; −87 ≤ x ≤ 88. */
static inline vf vf_expm1_split(vf x, vf *power)
{
    vf bits;
    const vf n = vf_whole(x, vf_set1(1.44269504f), 0, &bits);
    *power = vf_power(bits);
    return vf_expm1_of_rest(x, n);
}

/* Splits e^x = m · 2^n and returns m, and n + offset as vf_whole does; −104 ≤ x ≤ 91. */
static inline vf vf_exp_whole(vf x, int offset, vf *bits)
{
    const vf n = vf_whole(x, vf_set1(1.44269504f), offset, bits);
    return vf_expm1_of_rest(x, n) + vf_set1(1.0f);
}

/* Splits e^x = m · 2^n and returns m; −104 ≤ x ≤ 89. vf_scale takes n in this form. */
static inline vf vf_exp_split(vf x, vf *n)
{
    return vf_exp_whole(x, 127, n);
}

/* e^x times this; −104.9 ≤ x ≤ 71. It is within the normal range, so that one power of two scales;
 * what rounds to 0 in float is 0, as the power of the lowest x is.
 */
static const float vf_exp_scale = 0x1p24f, vf_exp_lowest = -104.9f;
static inline vf vf_exp_scaled(vf x)
{
    vf bits;
    const vf m = vf_exp_whole(x, 24, &bits);
    return m * vf_power(bits);
}

/* The same for x ≤ 0, however small */
static inline vf vf_exp_scaled_of_negative(vf x)
{
    return vf_exp_scaled(vf_at_least(vf_set1(vf_exp_lowest), x));
}
#endif

/* x within the bounds that these take: beyond them, e^x has left float for good. */
static inline vf vf_exp_bounded(vf x)
{
    return vf_at_most(vf_set1(89.0f), vf_at_least(vf_set1(-104.0f), x));
}

/* e^x, to 1.1 ulp. Where that is 0, nothing is scaled down to it: underflow costs more than the
 * rest, and masks add −10000 to half of all scores.
 */
static inline vf vf_exp(vf x)
{
    vf n;
    const vf m = vf_exp_split(vf_exp_bounded(x), &n);
    const vm is_zero = vf_lt(x, vf_set1(-104.0f));
    return vf_scale(vf_select(is_zero, vf_set1(0.0f), m), n);
}

/* The same for x ≤ 0 */
static inline vf vf_exp_of_negative(vf x)
{
    return vf_exp_scaled_of_negative(x) * vf_set1(1.0f / vf_exp_scale);
}

/* e^x − 1, to 2 ulp, for x ≤ 0; below −20 it is −1 in float. */
static inline vf vf_expm1_of_negative(vf x)
{
    vf power;
    const vf p = vf_expm1_split(vf_at_least(vf_set1(-20.0f), x), &power);
    return vf_fma(power, p, power - vf_set1(1.0f));
}

/* ln x for finite x > 0, to 1 ulp */
static inline vf vf_log_of_positive(vf x)
{
    vf e;
    const vf f = vf_split(x, &e) - vf_set1(1.0f), square = f * f;
    vf p = vf_set1(0.0376791693f);
    p = vf_fma(p, f, vf_set1(-0.0911757052f));
    p = vf_fma(p, f, vf_set1(0.117015585f));
    p = vf_fma(p, f, vf_set1(-0.127278924f));
    p = vf_fma(p, f, vf_set1(0.142761678f));
    p = vf_fma(p, f, vf_set1(-0.166552797f));
    p = vf_fma(p, f, vf_set1(0.199996054f));
    p = vf_fma(p, f, vf_set1(-0.250001669f));
    p = vf_fma(p, f, vf_set1(0.333333403f));
    /* f − f²/2 + f³·p + e·ln 2, small terms first */
    vf y = vf_fma(p * f, square, e * vf_set1(1.42860677e-6f));
    y = vf_fma(square, vf_set1(-0.5f), y);
    return vf_fma(e, vf_set1(0.693145752f), y + f);
}

/* ln x, to 1 ulp */
static inline vf vf_log(vf x)
{
    const vf zero = vf_set1(0.0f), infinity = vf_set1(__builtin_inff());
    vf y = vf_log_of_positive(x);
    y = vf_select(vf_eq(x, zero), vf_neg(infinity), y);
    y = vf_select(vf_lt(x, zero), vf_set1(__builtin_nanf("")), y);
    y = vf_select(vf_eq(x, infinity), infinity, y);
    return vf_select(vf_is_nan(x), x, y);
}

/* 1 / (1 + e^−x) = e^x / (e^x + 1), to 3 ulp; from x = 40 on it is 1 in float. */
static inline vf vf_sigmoid(vf x)
{
    const vf e = vf_exp_scaled(vf_at_most(vf_set1(40.0f), vf_at_least(vf_set1(vf_exp_lowest), x)));
    return e / (e + vf_set1(vf_exp_scale));
}

/* x · sigmoid(z), to 4 ulp on AVX-512, else to 3 */
static inline vf vf_times_sigmoid(vf x, vf z)
{
#ifdef __AVX512F__
    return x * vf_sigmoid(z);
#else
    /* (x / 4) / (1/4 + e^−z / 4), in one division. A quarter of e^−z is finite as long as
     * sigmoid(z) is above 1e-39; beyond that it is infinite, and the result 0.
     */
    const vf quarter = vf_set1(0.25f);
    const vf bounded = vf_at_least(vf_set1(-80.0f), vf_at_most(vf_set1(90.2f), -z));
    vf bits;
    const vf m = vf_exp_whole(bounded, -2, &bits);
    return x * quarter / vf_fma(m, vf_power(bits), quarter);
#endif
}

/* tanh x, to 3 ulp: m / (m + 2) with m = e^2|x| − 1; from |x| = 10 on it is 1 in float. */
static inline vf vf_tanh(vf x)
{
    const vf one = vf_set1(1.0f), size = vf_at_most(vf_set1(10.0f), vf_abs(x));
    vf power;
    const vf p = vf_expm1_split(size + size, &power);
    const vf m = vf_fma(power, p, power - one);
    return vf_with_sign(m / (m + vf_set1(2.0f)), x);
}

/* erf x, to 1.1 ulp */
static inline vf vf_erf(vf x)
{
    const vf size = vf_abs(x), square = x * x;
    vf p = vf_set1(-5.97658101e-4f);
    p = vf_fma(p, square, vf_set1(4.99041053e-3f));
    p = vf_fma(p, square, vf_set1(-2.67647523e-2f));
    p = vf_fma(p, square, vf_set1(0.112817653f));
    /* A coefficient of −0.376124889 in two parts: the larger one's product with the square is
     * exact, and where the other's is rounded, it is small.
     */
    p = vf_fma(p, square, vf_set1(-0.126124889f));
    p = vf_fma(p, square, vf_set1(0.128379151f));
    p = vf_fnma(vf_set1(0.25f), square, p);
    const vf near = vf_fma(p, x, x);
    /* −ln(1 − erf t); from t = 4 on, erf is 1 in float */
    const vf t = vf_at_most(vf_set1(4.0f), size);
    vf q = vf_set1(1.1153621e-5f);
    q = vf_fma(q, t, vf_set1(-3.22027336e-4f));
    q = vf_fma(q, t, vf_set1(3.63930641e-3f));
    q = vf_fma(q, t, vf_set1(-2.37554051e-2f));
    q = vf_fma(q, t, vf_set1(0.106229164f));
    q = vf_fma(q, t, vf_set1(0.635155976f));
    q = vf_fma(q, t, vf_set1(1.12864733f));
    const vf far = vf_with_sign(vf_neg(vf_expm1_of_negative(vf_neg(q * t))), x);
    return vf_select(vf_lt(size, vf_set1(0.921875f)), near, far);
}

/* ln(1 + e^x), to 2 ulp */
static inline vf vf_softplus(vf x)
{
    const vf one = vf_set1(1.0f);
    const vf e = vf_exp_of_negative(vf_neg(vf_abs(x))), sum = one + e;
    const vf lost = e - (sum - one); /* what rounding the sum left out */
    return vf_at_least(vf_set1(0.0f), x) + (vf_log_of_positive(sum) + lost / sum);
}

#endif
