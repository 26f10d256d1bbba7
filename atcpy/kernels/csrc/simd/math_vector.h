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

/* Splits x = n·ln 2 + r, |r| ≤ ln 2 / 2, and returns e^r − 1; −104 ≤ x ≤ 89. */
static inline vf vf_expm1_split(vf x, vf *n)
{
    *n = vf_round(x * vf_set1(1.44269504f));
    return vf_expm1_of_rest(x, *n);
}

#ifdef __AVX512F__
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
#else
/* Splits e^x = m · 2^n and returns m; −104 ≤ x ≤ 89. */
static inline vf vf_exp_split(vf x, vf *n)
{
    return vf_expm1_split(x, n) + vf_set1(1.0f);
}

/* Splits e^x · 2^shift = m · power and returns m. The power is 0 where its exponent would be −127,
 * and infinite where it would be 128.
 */
static inline vf vf_exp_power(vf x, float shift, vf *power)
{
    /* So large that the last bit of a sum is worth 1: its low bits are the exponent of a float. */
    const vf large = vf_set1(0x1.8p23f + 127 + shift);
    const vf sum = vf_fma(x, vf_set1(1.44269504f), large);
    *power = (vf)((vu)sum << 23);
    return vf_expm1_of_rest(x, sum - large) + vf_set1(1.0f);
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

/* e^x for x ≤ 0, to 1.1 ulp; a result below the normal range may be 0. */
static inline vf vf_exp_of_negative(vf x)
{
#ifdef __AVX512F__
    return vf_exp(x);
#else
    vf power;
    const vf m = vf_exp_power(vf_at_least(vf_set1(-88.0f), x), 0, &power);
    return m * power;
#endif
}

/* e^x − 1, to 2 ulp, for x ≤ 0 */
static inline vf vf_expm1_of_negative(vf x)
{
    vf n;
    const vf p = vf_expm1_split(vf_exp_bounded(x), &n), one = vf_set1(1.0f);
    const vf power = vf_scale(one, n);
    return vf_fma(power, p, power - one);
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

#ifdef __AVX512F__
/* 1 / (1 + e^−x) = e^x / (e^x + 1), to 3 ulp; from x = 40 on it is 1 in float. */
static inline vf vf_sigmoid(vf x)
{
    vf n;
    const vf m = vf_exp_split(vf_at_most(vf_set1(40.0f), vf_at_least(vf_set1(-104.0f), x)), &n);
    const vf e = vf_scale(m, n);
    return e / (e + vf_set1(1.0f));
}

/* x · sigmoid(z), to 4 ulp */
static inline vf vf_times_sigmoid(vf x, vf z)
{
    return x * vf_sigmoid(z);
}
#else
/* x · sigmoid(z) = (x / 4) / (1/4 + e^−z / 4), to 3 ulp. A quarter of e^−z is finite as long as
 * sigmoid(z) is above 1e-39; beyond that it is infinite, and the result 0.
 */
static inline vf vf_times_sigmoid(vf x, vf z)
{
    const vf quarter = vf_set1(0.25f);
    vf power;
    const vf bounded = vf_at_least(vf_set1(-80.0f), vf_at_most(vf_set1(90.2f), -z));
    const vf m = vf_exp_power(bounded, -2, &power);
    return x * quarter / vf_fma(m, power, quarter);
}

/* 1 / (1 + e^−x), to 3 ulp */
static inline vf vf_sigmoid(vf x)
{
    return vf_times_sigmoid(vf_set1(1.0f), x);
}
#endif

/* tanh x, to 3 ulp: m / (m + 2) with m = e^2|x| − 1; from |x| = 10 on it is 1 in float. */
static inline vf vf_tanh(vf x)
{
    const vf one = vf_set1(1.0f), size = vf_at_most(vf_set1(10.0f), vf_abs(x));
    vf n;
    const vf p = vf_expm1_split(size + size, &n), power = vf_scale(one, n);
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
    const vf e = vf_exp(vf_neg(vf_abs(x))), sum = one + e;
    const vf lost = e - (sum - one); /* what rounding the sum left out */
    return vf_at_least(vf_set1(0.0f), x) + (vf_log_of_positive(sum) + lost / sum);
}

#endif
