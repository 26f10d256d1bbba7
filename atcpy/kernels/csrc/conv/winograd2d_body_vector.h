/* winograd2d on vectors of channels: the loops of the transforms for tiles of any size, and the
 * transforms of small tiles, in as few operations as their matrices have common terms.
 */
#ifndef ATC_WINOGRAD2D_BODY_VECTOR_H
#define ATC_WINOGRAD2D_BODY_VECTOR_H

#include "conv/stored_vector.h"
#include "conv/winograd2d.h"
#include "simd/activation_vector.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* A matrix times a column, whose elements lie `step` vectors apart. */
typedef void (*wino_times)(const vf *column, int64_t step, vf *out);

/* Stores transformed inputs from channel `lane` of a position on. */
typedef void (*wino_put)(float *position, int64_t lane, vf x);

ALWAYS_INLINE void transform_stored(const struct wino_input *tile, bool is_bf16, int64_t in,
                                    wino_times b_times, wino_put put, float *out, int64_t stride)
{
    for (int64_t lane = 0; lane < CONV_C0; lane += VF) {
        vf part[WINO_MAX_IN * WINO_MAX_IN]; /* by columns */
#pragma GCC unroll 6
        for (int64_t column = 0; column < in; column++) {
            vf d[WINO_MAX_IN];
            if (column < tile->begin || column >= tile->end) {
                for (int64_t row = 0; row < in; row++)
                    part[column * in + row] = vf_set1(0.0f);
                continue;
            }
#pragma GCC unroll 6
            for (int64_t row = 0; row < in; row++)
                d[row] =
                    load_stored(tile->rows[row], is_bf16, (column - tile->begin) * CONV_C0 + lane);
            b_times(d, 1, part + column * in);
        }
#pragma GCC unroll 6
        for (int64_t row = 0; row < in; row++) {
            vf v[WINO_MAX_IN];
            b_times(part + row, in, v);
#pragma GCC unroll 6
            for (int64_t column = 0; column < in; column++)
                put(out + (row * in + column) * stride, lane, v[column]);
        }
    }
}

/* Inputs of either type, each by loops of its own. */
ALWAYS_INLINE void transform_input(const struct wino_input *tile, int64_t in, wino_times b_times,
                                   wino_put put, float *out, int64_t stride)
{
    if (tile->is_bf16)
        transform_stored(tile, true, in, b_times, put, out, stride);
    else
        transform_stored(tile, false, in, b_times, put, out, stride);
}

/* Of in x in sums and out x out results. */
ALWAYS_INLINE void transform_results(const struct wino_results *t, int64_t in, int64_t out,
                                     wino_times a_times)
{
    const enum activation activation = t->activation;
    /* What is activated where it is stored is rounded after that. */
    const bool by_floats = t->dst_bf16 && !activates_in_registers(activation);
    const bool dst_bf16 = t->dst_bf16 && !by_floats;
    float floats[WINO_LARGE * WINO_LARGE * CONV_C0];
    float *dst = by_floats ? floats : t->dst;
    const int64_t dst_row = by_floats ? out * CONV_C0 : t->dst_row;
    const vf low = vf_set1(activation == ACT_CLIP ? t->alpha : 0.0f), high = vf_set1(t->beta);
    for (int64_t lane = 0; lane < CONV_C0; lane += VF) {
        vf part[WINO_MAX_IN * WINO_LARGE]; /* by rows of positions */
#pragma GCC unroll 6
        for (int64_t row = 0; row < in; row++) {
            vf m[WINO_MAX_IN];
#pragma GCC unroll 6
            for (int64_t column = 0; column < in; column++)
                m[column] = vf_load(t->sums + (row * in + column) * t->stride + lane);
            a_times(m, 1, part + row * out);
        }
        const vf bias = vf_load(t->bias + lane);
#pragma GCC unroll 4
        for (int64_t column = 0; column < out; column++) {
            if (column >= t->columns)
                break;
            vf y[WINO_LARGE];
            a_times(part + column, out, y);
            const int64_t at = column * CONV_C0 + lane;
#pragma GCC unroll 4
            for (int64_t row = 0; row < out; row++) {
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
        VECTORS_FOR_ISA(activate_stored)(activation, at, t->columns, CONV_C0, CONV_C0, t->alpha,
                                         t->beta);
        for (int64_t i = 0; by_floats && i < t->columns * CONV_C0; i += VF)
            store_stored(t->dst + row * t->dst_row, true, i, vf_load(at + i));
    }
}

/* G times a column of three, Bᵀ and Aᵀ times one of four: tiles of 2x2. */
ALWAYS_INLINE void g_times_small(vf g0, vf g1, vf g2, vf *u)
{
    const vf half = vf_set1(0.5f), even = g0 + g2;
    u[0] = g0;
    u[1] = (even + g1) * half;
    u[2] = (even - g1) * half;
    u[3] = g2;
}

ALWAYS_INLINE void b_times_small(const vf *d, int64_t step, vf *v)
{
    v[0] = d[0] - d[2 * step];
    v[1] = d[step] + d[2 * step];
    v[2] = d[2 * step] - d[step];
    v[3] = d[step] - d[3 * step];
}

ALWAYS_INLINE void a_times_small(const vf *m, int64_t step, vf *y)
{
    y[0] = m[0] + m[step] + m[2 * step];
    y[1] = m[step] - m[2 * step] - m[3 * step];
}

/* G g Gᵀ of a filter for each lane. */
ALWAYS_INLINE void transform_small_filter(const vf *g, vf *u)
{
    enum { IN = WINO_SMALL + WINO_TAPS - 1 };
    vf part[WINO_TAPS][IN]; /* by columns */
#pragma GCC unroll 3
    for (int64_t column = 0; column < WINO_TAPS; column++)
        g_times_small(g[column], g[column + WINO_TAPS], g[column + 2 * WINO_TAPS], part[column]);
#pragma GCC unroll 4
    for (int64_t row = 0; row < IN; row++)
        g_times_small(part[0][row], part[1][row], part[2][row], u + row * IN);
}

#endif
