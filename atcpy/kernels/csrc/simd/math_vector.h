/* Elementary functions on a vector of floats.
 * Errors in ulp are those that tests/ops/elementwise/test_elementwise.py allows, against float64.
 * NaN passes, infinities and results below the normal range come out as C's own functions give
 * them, but for vf_times_sigmoid, which says where it is 0.
 */
#ifndef ATC_MATH_VECTOR_H
#define ATC_MATH_VECTOR_H

#include "simd/vector.h"

/* vf_exp_scaled returns e^x times this scale. That is within the normal range wherever e^x is not 0
 * in float, and 0 for the lowest x, −151·ln 2.
 */
static const float vf_exp_scale = 0x1p24f, vf_exp_lowest = -104.665f;

/* x − n·ln 2. ln 2 comes in two parts; the first product is exact. */
static inline vf vf_rest(vf x, vf n)
{
    return vf_fnma(n, vf_set1(1.42860677e-6f), vf_fnma(n, vf_set1(0.693145752f), x));
}

/* e^r − 1 for r = x − n·ln 2, |r| ≤ ln 2 / 2 */
static inline vf vf_expm1_of_rest(vf x, vf n)
{
    const vf r = vf_rest(x, n);
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
    const vf r = vf_rest(x, *n);
    const vf root = vf_pick(roots, sum), rest = vf_pick(rests, sum);
    const vf q = vf_fma(vf_set1(0.166666667f), r, vf_set1(0.5f));
    return root + vf_fma(vf_fma(q, r * r, r), root, rest);
}

/* 2^n for a multiple n of 1/32, given n + 1.5 · 2^18, whose low five bits are a root's number. One
 * addition makes the bits of the power from those of the root and the exponent, as the table leaves
 * out what the root's number adds to them. 2^−127 comes out as 0, and 2^128 as infinite.
 */
static inline vf vf_power(vf sum)
{
    static const float roots[2 * VF] = {
        1.0f,         0.995323598f, 0.990886867f, 0.98669523f,  0.982753873f, 0.979068398f,
        0.97564429f,  0.97248745f,  0.969603539f, 0.966998696f, 0.964678884f, 0.962650478f,
        0.960919797f, 0.959493339f, 0.958377779f, 0.95757997f,  0.957106769f, 0.956965387f,
        0.957163095f, 0.957707226f, 0.958605409f, 0.959865451f, 0.961495161f, 0.963502765f,
        0.965896428f, 0.968684673f, 0.971876085f, 0.975479543f, 0.979504049f, 0.98395884f,
        0.988853276f, 0.994197071f};
    return (vf)((vu)vf_pick_of_two(roots, sum) + ((vu)sum << 18));
}

/* e^x times vf_exp_scale; vf_exp_lowest ≤ x ≤ 71. As vf_exp_split with 32 roots, |r| ≤ ln 2 / 64;
 * `rests` are relative.
 */
static inline vf vf_exp_scaled(vf x)
{
    static const float rests[2 * VF] = {
        0.0f,         -4.70846e-8f, 4.62855e-8f,  -5.56042e-8f, -1.19922e-8f, -4.87761e-8f,
        4.72978e-8f,  -3.48144e-8f, 3.19342e-8f,  -2.68867e-8f, 3.62106e-8f,  1.11842e-9f,
        -3.09907e-8f, -2.63830e-8f, -7.47521e-9f, -4.24564e-8f, 1.71143e-8f,  2.30020e-8f,
        -3.04768e-8f, -1.65385e-8f, 5.23333e-9f,  -3.59206e-8f, 6.10759e-9f,  -3.11405e-8f,
        -1.47196e-8f, -2.82181e-8f, -5.25880e-9f, -6.36039e-9f, -6.12826e-9f, -2.48804e-8f,
        5.14061e-9f,  -8.69727e-9f};
    const vf shift = vf_set1(0x1.8p18f + 24), sum = vf_fma(x, vf_set1(1.44269504f), shift);
    const vf n = sum - shift, power = vf_power(sum);
    const vf r = vf_rest(x, n);
    const vf q = vf_fma(vf_fma(vf_set1(0.166666667f), r, vf_set1(0.5f)), r, vf_set1(1.0f));
    return vf_fma(vf_fma(q, r, vf_pick_of_two(rests, sum)), power, power);
}

/* Splits e^−x · 2^offset = m · power and returns m: without `rests`, to 1 ulp. */
static inline vf vf_exp_of_negated(vf x, int offset, vf *power)
{
    const vf shift = vf_set1(0x1.8p18f + (float)offset);
    const vf sum = vf_fma(x, vf_set1(-1.44269504f), shift), n = sum - shift;
    vf r = vf_fma(n, vf_set1(0.693145752f), x); /* of x, not −x: odd terms change their sign */
    r = vf_fma(n, vf_set1(1.42860677e-6f), r);
    *power = vf_power(sum);
    const vf q = vf_fma(vf_fma(vf_set1(-0.166666667f), r, vf_set1(0.5f)), r, vf_set1(-1.0f));
    return vf_fma(q, r, vf_set1(1.0f));
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

/* e^x times vf_exp_scale; vf_exp_lowest ≤ x ≤ 71 */
static inline vf vf_exp_scaled(vf x)
{
    vf bits;
    const vf m = vf_exp_whole(x, 24, &bits);
    return m * vf_power(bits);
}

/* Splits e^−x · 2^offset = m · power and returns m; 2^−127 comes out as 0, and 2^128 as infinite.
 */
static inline vf vf_exp_of_negated(vf x, int offset, vf *power)
{
    vf bits;
    const vf m = vf_exp_whole(-x, offset, &bits);
    *power = vf_power(bits);
    return m;
}
#endif

/* The same for x ≤ 0, however small */
static inline vf vf_exp_scaled_of_negative(vf x)
{
    return vf_exp_scaled(vf_at_least(vf_set1(vf_exp_lowest), x));
}

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

/* x · sigmoid(z), to 3.5 ulp: (x / 4) / (1/4 + e^−z / 4). A quarter of e^−z is finite as long as
 * sigmoid(z) is above 1e-39. Below that, from a z of −130·ln 2 on with AVX-512 and of −129.5·ln 2
 * elsewhere, it is infinite, and the result 0, which errs by less than 1e-39 · |x|.
 */
static inline vf vf_times_sigmoid(vf x, vf z)
{
    const vf quarter = vf_set1(0.25f);
    const vf bounded = vf_at_least(vf_set1(-90.115f), vf_at_most(vf_set1(80.0f), z));
    vf power;
    const vf m = vf_exp_of_negated(bounded, -2, &power);
    return x * quarter / vf_fma(m, power, quarter);
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
