/* winograd2d on vectors of channels. */
#include "conv/winograd2d_body_vector.h"

/* --- tiles of 4x4 ---------------------------------------------------------------------------- */

enum { MATRIX = CONV_C0 * CONV_C0, IN = WINO_MAX_IN };

/* G times a column of three. */
ALWAYS_INLINE void g_times(vf g0, vf g1, vf g2, vf *u)
{
    const vf sixth = vf_set1(-1.0f / 6), twelfth = vf_set1(1.0f / 12);
    const vf even = g0 + g2;
    const vf scaled = vf_fma(g0, vf_set1(1.0f / 24), g2 * vf_set1(1.0f / 6));
    u[0] = g0 * vf_set1(1.0f / 4);
    u[1] = (even + g1) * sixth;
    u[2] = (even - g1) * sixth;
    u[3] = vf_fma(g1, twelfth, scaled);
    u[4] = vf_fnma(g1, twelfth, scaled);
    u[5] = g2;
}

static void filters_large(const float *weights, const float *next, float *out, int64_t stride)
{
    for (int64_t i = 0; i < MATRIX; i += VF) {
#pragma GCC unroll 9
        for (int64_t tap = 0; tap < WINO_TAPS * WINO_TAPS; tap++)
            __builtin_prefetch(next + tap * MATRIX + i);
        vf part[WINO_TAPS][IN]; /* by columns */
#pragma GCC unroll 3
        for (int64_t column = 0; column < WINO_TAPS; column++) {
            const float *at = weights + column * MATRIX + i;
            g_times(vf_load(at), vf_load(at + WINO_TAPS * MATRIX),
                    vf_load(at + 2 * WINO_TAPS * MATRIX), part[column]);
        }
#pragma GCC unroll 6
        for (int64_t row = 0; row < IN; row++) {
            vf u[IN];
            g_times(part[0][row], part[1][row], part[2][row], u);
#pragma GCC unroll 6
            for (int64_t column = 0; column < IN; column++)
                vf_store(out + (row * IN + column) * stride + i, u[column]);
        }
    }
}

/* Bᵀ times a column of six, which lie `step` vectors apart. */
ALWAYS_INLINE void b_times(const vf *d, int64_t step, vf *v)
{
    const vf d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step],
             d5 = d[5 * step];
    const vf four = vf_set1(4.0f), five = vf_set1(5.0f), two = vf_set1(2.0f);
    const vf even = vf_fnma(four, d2, d4), odd = vf_fnma(four, d1, d3);
    const vf even2 = d4 - d2, odd2 = d3 - d1;
    v[0] = vf_fma(four, d0, vf_fnma(five, d2, d4));
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = vf_fma(two, odd2, even2);
    v[4] = vf_fnma(two, odd2, even2);
    v[5] = vf_fma(four, d1, vf_fnma(five, d3, d5));
}

ALWAYS_INLINE void put_float(float *position, int64_t lane, vf x)
{
    vf_store(position + lane, x);
}

static void input_large(const struct wino_input *tile, float *out, int64_t stride)
{
    transform_input(tile, IN, b_times, put_float, out, stride);
}

/* Aᵀ times a column of six. */
ALWAYS_INLINE void a_times(const vf *m, int64_t step, vf *y)
{
    const vf m1 = m[step], m2 = m[2 * step], m3 = m[3 * step], m4 = m[4 * step];
    const vf even1 = m1 + m2, odd1 = m1 - m2, even2 = m3 + m4, odd2 = m3 - m4;
    y[0] = m[0] + even1 + even2;
    y[1] = vf_fma(vf_set1(2.0f), odd2, odd1);
    y[2] = vf_fma(vf_set1(4.0f), even2, even1);
    y[3] = vf_fma(vf_set1(8.0f), odd2, odd1) + m[5 * step];
}

static void results_large(const struct wino_results *tile)
{
    transform_results(tile, IN, WINO_LARGE, a_times);
}

static const struct wino_transforms large = {filters_large, input_large, results_large};

/* --- tiles of 2x2, whose factors are rounded to bfloat16 -------------------------------------- */

enum { SMALL_IN = WINO_SMALL + WINO_TAPS - 1 };

ALWAYS_INLINE void put_rounded(float *position, int64_t lane, vf x)
{
    uint16_t rounded[VF];
    vf_store_bf16(rounded, x);
    vf_store(position + lane, vf_load_bf16(rounded));
}

static void filters_small(const float *weights, const float *next, float *out, int64_t stride)
{
    enum { POSITIONS = SMALL_IN * SMALL_IN };
    for (int64_t i = 0; i < MATRIX; i += VF) {
        vf g[WINO_TAPS * WINO_TAPS], u[POSITIONS];
        for (int64_t tap = 0; tap < WINO_TAPS * WINO_TAPS; tap++) {
            __builtin_prefetch((const uint16_t *)next + tap * MATRIX + i);
            g[tap] = vf_load(weights + tap * MATRIX + i);
        }
        transform_small_filter(g, u);
        for (int64_t at = 0; at < POSITIONS; at++)
            put_rounded(out + at * stride, i, u[at]);
    }
}

static void input_small(const struct wino_input *tile, float *out, int64_t stride)
{
    transform_input(tile, SMALL_IN, b_times_small, put_rounded, out, stride);
}

static void results_small(const struct wino_results *tile)
{
    transform_results(tile, SMALL_IN, WINO_SMALL, a_times_small);
}

static const struct wino_transforms small = {filters_small, input_small, results_small};

/* --- tiles of 2x2 at stride 2 ----------------------------------------------------------------- */

static void filters_strided(const float *weights, const float *next, float *out, int64_t stride)
{
    enum { FILTERS = WINO_STRIDED_FILTERS };
    for (int64_t i = 0; i < MATRIX; i += VF) {
        vf part[WINO_TAPS][FILTERS]; /* by columns */
#pragma GCC unroll 3
        for (int64_t column = 0; column < WINO_TAPS; column++) {
            const float *at = weights + column * MATRIX + i;
#pragma GCC unroll 3
            for (int64_t row = 0; row < WINO_TAPS; row++)
                __builtin_prefetch(next + (row * WINO_TAPS + column) * MATRIX + i);
            part[column][0] = vf_load(at);
            part[column][1] = vf_load(at + WINO_TAPS * MATRIX);
            part[column][3] = vf_load(at + 2 * WINO_TAPS * MATRIX);
            part[column][2] = part[column][0] + part[column][3];
        }
#pragma GCC unroll 4
        for (int64_t row = 0; row < FILTERS; row++) {
            float *at = out + row * FILTERS * stride + i;
            vf_store(at, part[0][row]);
            vf_store(at + stride, part[1][row]);
            vf_store(at + 2 * stride, part[0][row] + part[2][row]);
            vf_store(at + 3 * stride, part[2][row]);
        }
    }
}

ALWAYS_INLINE void b_times_strided(const vf *d, int64_t step, vf *v)
{
    v[0] = d[0] - d[2 * step];
    v[1] = d[step];
    v[2] = d[2 * step];
    v[3] = d[3 * step];
    v[4] = d[4 * step] - d[2 * step];
}

static void input_strided(const struct wino_input *tile, float *out, int64_t stride)
{
    transform_input(tile, WINO_STRIDED_IN, b_times_strided, put_float, out, stride);
}

ALWAYS_INLINE void a_times_strided(const vf *s, int64_t step, vf *y)
{
    y[0] = s[0] + s[step];
    y[1] = s[2 * step] + s[step];
}

static void results_strided(const struct wino_results *tile)
{
    transform_results(tile, WINO_STRIDED_SUMS, WINO_SMALL, a_times_strided);
}

static const struct wino_transforms strided = {filters_strided, input_strided, results_strided};

static const struct wino_isa isa = {&FOR_ISA(conv2d_isa), &large, &small, &strided};

void FOR_ISA(winograd2d_f32)(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}

void FOR_ISA(winograd2d_bf16)(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}
