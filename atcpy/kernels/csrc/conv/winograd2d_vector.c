/* winograd2d on vectors of channels: the transforms in as few operations as their matrices have
 * common terms.
 */
#include "conv/stored_vector.h"
#include "conv/winograd2d.h"
#include "simd/activation_vector.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

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

static void filters(const float *weights, const float *next, float *out, int64_t stride)
{
    enum { MATRIX = CONV_C0 * CONV_C0 };
    for (int64_t i = 0; i < MATRIX; i += VF) {
#pragma GCC unroll 9
        for (int64_t tap = 0; tap < WINO_TAPS * WINO_TAPS; tap++)
            __builtin_prefetch(next + tap * MATRIX + i);
        vf part[WINO_TAPS][WINO_IN]; /* by columns */
#pragma GCC unroll 3
        for (int64_t column = 0; column < WINO_TAPS; column++) {
            const float *at = weights + column * MATRIX + i;
            g_times(vf_load(at), vf_load(at + WINO_TAPS * MATRIX),
                    vf_load(at + 2 * WINO_TAPS * MATRIX), part[column]);
        }
#pragma GCC unroll 6
        for (int64_t row = 0; row < WINO_IN; row++) {
            vf u[WINO_IN];
            g_times(part[0][row], part[1][row], part[2][row], u);
#pragma GCC unroll 6
            for (int64_t column = 0; column < WINO_IN; column++)
                vf_store(out + (row * WINO_IN + column) * stride + i, u[column]);
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

ALWAYS_INLINE void transform_input(const struct wino_input *tile, bool is_bf16, float *out,
                                   int64_t stride)
{
    for (int64_t lane = 0; lane < CONV_C0; lane += VF) {
        vf part[WINO_IN][WINO_IN]; /* by columns */
#pragma GCC unroll 6
        for (int64_t column = 0; column < WINO_IN; column++) {
            vf d[WINO_IN];
            if (column < tile->begin || column >= tile->end) {
                for (int64_t row = 0; row < WINO_IN; row++)
                    part[column][row] = vf_set1(0.0f);
                continue;
            }
#pragma GCC unroll 6
            for (int64_t row = 0; row < WINO_IN; row++)
                d[row] =
                    load_stored(tile->rows[row], is_bf16, (column - tile->begin) * CONV_C0 + lane);
            b_times(d, 1, part[column]);
        }
#pragma GCC unroll 6
        for (int64_t row = 0; row < WINO_IN; row++) {
            vf v[WINO_IN];
            b_times(&part[0][row], WINO_IN, v);
#pragma GCC unroll 6
            for (int64_t column = 0; column < WINO_IN; column++)
                vf_store(out + (row * WINO_IN + column) * stride + lane, v[column]);
        }
    }
}

static void input(const struct wino_input *tile, float *out, int64_t stride)
{
    if (tile->is_bf16)
        transform_input(tile, true, out, stride);
    else
        transform_input(tile, false, out, stride);
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

static void results(const struct wino_results *t)
{
    const enum activation activation = t->activation;
    /* What is activated where it is stored is rounded after that. */
    const bool by_floats = t->dst_bf16 && !activates_in_registers(activation);
    const bool dst_bf16 = t->dst_bf16 && !by_floats;
    float floats[WINO_OUT * WINO_OUT * CONV_C0];
    float *dst = by_floats ? floats : t->dst;
    const int64_t dst_row = by_floats ? WINO_OUT * CONV_C0 : t->dst_row;
    const vf low = vf_set1(activation == ACT_CLIP ? t->alpha : 0.0f), high = vf_set1(t->beta);
    for (int64_t lane = 0; lane < CONV_C0; lane += VF) {
        vf part[WINO_IN][WINO_OUT]; /* by rows of positions */
#pragma GCC unroll 6
        for (int64_t row = 0; row < WINO_IN; row++) {
            vf m[WINO_IN];
#pragma GCC unroll 6
            for (int64_t column = 0; column < WINO_IN; column++)
                m[column] = vf_load(t->sums + (row * WINO_IN + column) * t->stride + lane);
            a_times(m, 1, part[row]);
        }
        const vf bias = vf_load(t->bias + lane);
#pragma GCC unroll 4
        for (int64_t column = 0; column < WINO_OUT; column++) {
            if (column >= t->columns)
                break;
            vf y[WINO_OUT];
            a_times(&part[0][column], WINO_OUT, y);
            const int64_t at = column * CONV_C0 + lane;
#pragma GCC unroll 4
            for (int64_t row = 0; row < WINO_OUT; row++) {
                if (row >= t->rows)
                    break;
                vf sum = y[row] + bias;
                if (t->residual != NULL)
                    sum = sum +
                          load_stored(t->residual + row * t->residual_row, t->residual_bf16, at);
                if (activation == ACT_RELU || activation == ACT_CLIP)
                    sum = vf_at_least(low, sum);
                if (activation == ACT_CLIP)
                    sum = vf_at_most(high, sum);
                store_stored(dst + row * dst_row, dst_bf16, at, sum);
            }
        }
    }
    if (activates_in_registers(activation))
        return;
    for (int64_t row = 0; row < t->rows; row++) {
        float *at = dst + row * dst_row;
        FOR_ISA(activate_stored)(activation, at, t->columns, CONV_C0, CONV_C0, t->alpha, t->beta);
        for (int64_t i = 0; by_floats && i < t->columns * CONV_C0; i += VF)
            store_stored(t->dst + row * t->dst_row, true, i, vf_load(at + i));
    }
}

static const struct wino_isa isa = {
    .gemm = &FOR_ISA(conv2d_isa),
    .filters = filters,
    .input = input,
    .results = results,
};

void FOR_ISA(winograd2d_f32)(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}

void FOR_ISA(winograd2d_bf16)(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}
