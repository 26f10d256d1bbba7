/* winograd2d by its definition: the matrices of the transforms, multiplied out. */
#include "conv/winograd2d.h"

static const float b_t[WINO_IN][WINO_IN] = {
    {4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
    {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1},
};
static const float g[WINO_IN][WINO_TAPS] = {
    {1.0f / 4, 0, 0},
    {-1.0f / 6, -1.0f / 6, -1.0f / 6},
    {-1.0f / 6, 1.0f / 6, -1.0f / 6},
    {1.0f / 24, 1.0f / 12, 1.0f / 6},
    {1.0f / 24, -1.0f / 12, 1.0f / 6},
    {0, 0, 1},
};
static const float a_t[WINO_OUT][WINO_IN] = {
    {1, 1, 1, 1, 1, 0},
    {0, 1, -1, 2, -2, 0},
    {0, 1, 1, 4, 4, 0},
    {0, 1, -1, 8, -8, 1},
};

/* One element of left · d · rightᵀ, for d of n x n. */
static float sandwich(const float *left, const float *right, const float *d, int64_t n)
{
    float sum = 0;
    for (int64_t column = 0; column < n; column++) {
        float part = 0;
        for (int64_t row = 0; row < n; row++)
            part += left[row] * d[row * n + column];
        sum += part * right[column];
    }
    return sum;
}

static void filters(const float *weights, const float *next, float *out, int64_t stride)
{
    (void)next;
    enum { MATRIX = CONV_C0 * CONV_C0 };
    for (int64_t i = 0; i < MATRIX; i++) {
        float taps[WINO_TAPS * WINO_TAPS];
        for (int64_t tap = 0; tap < WINO_TAPS * WINO_TAPS; tap++)
            taps[tap] = weights[tap * MATRIX + i];
        for (int64_t at = 0; at < WINO_POSITIONS; at++)
            out[at * stride + i] = sandwich(g[at / WINO_IN], g[at % WINO_IN], taps, WINO_TAPS);
    }
}

static void input(const struct wino_input *tile, float *out, int64_t stride)
{
    for (int64_t c = 0; c < CONV_C0; c++) {
        float d[WINO_POSITIONS] = {0};
        for (int64_t row = 0; row < WINO_IN; row++)
            for (int64_t column = tile->begin; column < tile->end; column++)
                d[row * WINO_IN + column] = conv2d_load(tile->rows[row], tile->is_bf16,
                                                        (column - tile->begin) * CONV_C0 + c);
        for (int64_t at = 0; at < WINO_POSITIONS; at++)
            out[at * stride + c] = sandwich(b_t[at / WINO_IN], b_t[at % WINO_IN], d, WINO_IN);
    }
}

static void results(const struct wino_results *t)
{
    for (int64_t c = 0; c < CONV_C0; c++) {
        float m[WINO_POSITIONS];
        for (int64_t at = 0; at < WINO_POSITIONS; at++)
            m[at] = t->sums[at * t->stride + c];
        for (int64_t row = 0; row < t->rows; row++)
            for (int64_t column = 0; column < t->columns; column++) {
                const int64_t at = column * CONV_C0 + c;
                float sum = t->bias[c] + sandwich(a_t[row], a_t[column], m, WINO_IN);
                if (t->residual != NULL)
                    sum += conv2d_load(t->residual + row * t->residual_row, t->residual_bf16, at);
                conv2d_store(t->dst + row * t->dst_row, t->dst_bf16, at,
                             activate_f32(t->activation, sum, t->alpha, t->beta));
            }
    }
}

static const struct wino_isa isa = {
    .gemm = &conv2d_isa_scalar,
    .filters = filters,
    .input = input,
    .results = results,
};

void winograd2d_f32_scalar(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}

void winograd2d_bf16_scalar(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}
