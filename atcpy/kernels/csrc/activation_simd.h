/* activate_f32 on a vector; included after vmath_*.h. NaN passes each.
 */

/* clip(x, 0, 1) */
static inline vf VMATH(clip_to_unit)(vf x)
{
    return vf_at_least(vf_set1(0.0f), vf_at_most(vf_set1(1.0f), x));
}

static inline vf VMATH(activate)(enum activation kind, vf x, float alpha, float beta)
{
    const vf zero = vf_set1(0.0f), a = vf_set1(alpha), b = vf_set1(beta);
    switch (kind) {
    case ACT_RELU:
        return vf_at_least(zero, x);
    case ACT_CLIP:
        return vf_at_most(b, vf_at_least(a, x));
    case ACT_LEAKY_RELU:
        return vf_select(vf_lt(x, zero), a * x, x);
    case ACT_SIGMOID:
        return VMATH(sigmoid)(x);
    case ACT_HARD_SIGMOID:
        return VMATH(clip_to_unit)(vf_fma(a, x, b));
    case ACT_HARD_SWISH:
        return x * VMATH(clip_to_unit)(vf_fma(x, vf_set1(1.0f / 6), vf_set1(0.5f)));
    case ACT_SWISH:
        return x * VMATH(sigmoid)(a * x);
    case ACT_TANH:
        return VMATH(tanh)(x);
    case ACT_NONE:
        break;
    }
    return x;
}
