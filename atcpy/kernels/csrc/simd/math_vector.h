/* Elementary functions on a vector of floats.
 * Errors in ulp are those that tests/ops/elementwise/test_elementwise.py allows, against float64.
 * NaN passes, infinities and results below the normal range come out as C's own functions give
 * them.
 */
#ifndef ATC_MATH_VECTOR_H
#define ATC_MATH_VECTOR_H

#include "simd/vector.h"

/* Splits x = n·ln 2 + r, |r| ≤ ln 2 / 2, and returns e^r − 1; −104 ≤ x ≤ 89. */
static inline vf vf_expm1_split(vf x, vf *n)
{
    *n = vf_round(x * vf_set1(1.44269504f));
    vf r =
        vf_fnma(*n, vf_set1(0.693145752f), x); /* ln 2 in two parts; the first product is exact */
    r = vf_fnma(*n, vf_set1(1.42860677e-6f), r);
    vf q = vf_set1(1.38825073e-3f);
    q = vf_fma(q, r, vf_set1(8.36659595e-3f));
    q = vf_fma(q, r, vf_set1(4.16672006e-2f));
    q = vf_fma(q, r, vf_set1(0.166665435f));
    q = vf_fma(q, r, vf_set1(0.49999997f));
    return vf_fma(q, r * r, r);
}

/* The same for any x: beyond these bounds, e^x has left float for good. */
static inline vf vf_expm1_reduced(vf x, vf *n)
{
    return vf_expm1_split(vf_at_most(vf_set1(89.0f), vf_at_least(vf_set1(-104.0f), x)), n);
}

/* e^x, to 1 ulp. Where that is 0, nothing is scaled down to it: underflow costs more than the rest,
 * and masks add −10000 to half of all scores.
 */
static inline vf vf_exp(vf x)
{
    vf n;
    const vf p = vf_expm1_reduced(x, &n);
    const vm is_zero = vf_lt(x, vf_set1(-104.0f));
    return vf_scale(vf_select(is_zero, vf_set1(0.0f), p + vf_set1(1.0f)), n);
}

/* e^x − 1, to 2 ulp, for x ≤ 0 */
static inline vf vf_expm1_of_negative(vf x)
{
    vf n;
    const vf p = vf_expm1_reduced(x, &n), one = vf_set1(1.0f);
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

/* 1 / (1 + e^−x), to 3 ulp */
static inline vf vf_sigmoid(vf x)
{
    const vf one = vf_set1(1.0f);
    vf n; /* e^−|x| never overflows */
    const vf p = vf_expm1_split(vf_at_least(vf_set1(-104.0f), vf_neg(vf_abs(x))), &n);
    const vf e = vf_scale(p + one, n);
    return vf_select(vf_lt(x, vf_set1(0.0f)), e, one) / (one + e);
}

/* tanh x, to 3 ulp: m / (m + 2) with m = e^2|x| − 1; from |x| = 10 on it is 1 in float. */
static inline vf vf_tanh(vf x)
{
    const vf one = vf_set1(1.0f), size = vf_at_most(vf_set1(10.0f), vf_abs(x));
    vf n;
    const vf p = vf_expm1_split(size + size, &n), power = vf_scale(one, n);
    const vf m = vf_fma(power, p, power - one);
    return vf_with_sign(m / (m + vf_set1(2.0f)), x);
}

/* erf x, to 2 ulp */
static inline vf vf_erf(vf x)
{
    const vf one = vf_set1(1.0f), size = vf_abs(x), square = x * x;
    vf p = vf_set1(-5.97658101e-4f);
    p = vf_fma(p, square, vf_set1(4.99041053e-3f));
    p = vf_fma(p, square, vf_set1(-2.67647523e-2f));
    p = vf_fma(p, square, vf_set1(0.112817653f));
    p = vf_fma(p, square, vf_set1(-0.376124889f));
    p = vf_fma(p, square, vf_set1(0.128379151f));
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
    const vf far = vf_with_sign(one - vf_exp(vf_neg(q * t)), x);
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
