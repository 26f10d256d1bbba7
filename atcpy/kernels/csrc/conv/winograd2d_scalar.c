/* winograd2d by its definition: the matrices of the transforms, multiplied out. */
#include "conv/winograd2d.h"

static const float b_large[] = {
    4, 0,  -5, 0,  1, 0, /* */
    0, -4, -4, 1,  1, 0, /* */
    0, 4,  -4, -1, 1, 0, /* */
    0, -2, -1, 2,  1, 0, /* */
    0, 2,  -1, -2, 1, 0, /* */
    0, 4,  0,  -5, 0, 1,
};
static const float g_large[] = {
    1.0f / 4,  0,          0,         /* */
    -1.0f / 6, -1.0f / 6,  -1.0f / 6, /* */
    -1.0f / 6, 1.0f / 6,   -1.0f / 6, /* */
    1.0f / 24, 1.0f / 12,  1.0f / 6,  /* */
    1.0f / 24, -1.0f / 12, 1.0f / 6,  /* */
    0,         0,          1,
};
static const float a_large[] = {
    1, 1, 1,  1, 1,  0, /* */
    0, 1, -1, 2, -2, 0, /* */
    0, 1, 1,  4, 4,  0, /* */
    0, 1, -1, 8, -8, 1,
};
static const float b_small[] = {
    1, 0,  -1, 0, /* */
    0, 1,  1,  0, /* */
    0, -1, 1,  0, /* */
    0, 1,  0,  -1,
};
static const float g_small[] = {
    1,        0,         0,        /* */
    1.0f / 2, 1.0f / 2,  1.0f / 2, /* */
    1.0f / 2, -1.0f / 2, 1.0f / 2, /* */
    0,        0,         1,
};
static const float a_small[] = {
    1, 1, 1,  0, /* */
    0, 1, -1, -1,
};

static const float b_strided[] = {
    1, 0, -1, 0, 0, /* */
    0, 1, 0,  0, 0, /* */
    0, 0, 1,  0, 0, /* */
    0, 0, 0,  1, 0, /* */
    0, 0, -1, 0, 1,
};
static const float g_strided[] = {
    1, 0, 0, /* */
    0, 1, 0, /* */
    1, 0, 1, /* */
    0, 0, 1,
};
static const float a_strided[] = {
    1, 1, 0, /* */
    0, 1, 1,
};

/* Bᵀ of in x in, G of filters x 3 and Aᵀ of results x sums, row by row. */
struct matrices {
    int64_t in, filters, sums;
    const float *b, *g, *a;
    bool rounds; /* factors of products to bfloat16 */
};

enum { SMALL_IN = WINO_SMALL + WINO_TAPS - 1 };
static const struct matrices large = {WINO_MAX_IN, WINO_MAX_IN, WINO_MAX_IN, b_large,
                                      g_large,     a_large,     false};
static const struct matrices small = {SMALL_IN, SMALL_IN, SMALL_IN, b_small,
                                      g_small,  a_small,  true};
static const struct matrices strided = {WINO_STRIDED_IN,
                                        WINO_STRIDED_FILTERS,
                                        WINO_STRIDED_SUMS,
                                        b_strided,
                                        g_strided,
                                        a_strided,
                                        false};

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

static float rounded(const struct matrices *m, float x)
{
    return m->rounds ? rounded_bf16(x) : x;
}

static void filters(const struct matrices *m, const float *weights, float *out, int64_t stride)
{
    enum { MATRIX = CONV_C0 * CONV_C0 };
    for (int64_t i = 0; i < MATRIX; i++) {
        float taps[WINO_TAPS * WINO_TAPS];
        for (int64_t tap = 0; tap < WINO_TAPS * WINO_TAPS; tap++)
            taps[tap] = weights[tap * MATRIX + i];
        for (int64_t row = 0; row < m->filters; row++)
            for (int64_t column = 0; column < m->filters; column++)
                out[(row * m->filters + column) * stride + i] =
                    rounded(m, sandwich(m->g + row * WINO_TAPS, m->g + column * WINO_TAPS, taps,
                                        WINO_TAPS));
    }
}

static void input(const struct matrices *m, const struct wino_input *tile, float *out,
                  int64_t stride)
{
    for (int64_t c = 0; c < CONV_C0; c++) {
        float d[WINO_MAX_IN * WINO_MAX_IN] = {0};
        for (int64_t row = 0; row < m->in; row++)
            for (int64_t column = tile->begin; column < tile->end; column++)
                d[row * m->in + column] = conv2d_load(tile->rows[row], tile->is_bf16,
                                                      (column - tile->begin) * CONV_C0 + c);
        for (int64_t row = 0; row < m->in; row++)
            for (int64_t column = 0; column < m->in; column++)
                out[(row * m->in + column) * stride + c] =
                    rounded(m, sandwich(m->b + row * m->in, m->b + column * m->in, d, m->in));
    }
}

static void results(const struct matrices *m, const struct wino_results *t)
{
    for (int64_t c = 0; c < CONV_C0; c++) {
        float sums[WINO_MAX_IN * WINO_MAX_IN];
        for (int64_t at = 0; at < m->sums * m->sums; at++)
            sums[at] = t->sums[at * t->stride + c];
        for (int64_t row = 0; row < t->rows; row++)
            for (int64_t column = 0; column < t->columns; column++) {
                const int64_t at = column * CONV_C0 + c;
                float sum = t->bias[c] +
                            sandwich(m->a + row * m->sums, m->a + column * m->sums, sums, m->sums);
                if (t->residual != NULL)
                    sum += conv2d_load(t->residual + row * t->residual_row, t->residual_bf16, at);
                conv2d_store(t->dst + row * t->dst_row, t->dst_bf16, at,
                             activate_f32(t->activation, sum, t->alpha, t->beta));
            }
    }
}

#define DEFINE_TRANSFORMS(size)                                                                    \
    static void filters_##size(const float *weights, const float *next, float *out,                \
                               int64_t stride)                                                     \
    {                                                                                              \
        (void)next;                                                                                \
        filters(&size, weights, out, stride);                                                      \
    }                                                                                              \
    static void input_##size(const struct wino_input *tile, float *out, int64_t stride)            \
    {                                                                                              \
        input(&size, tile, out, stride);                                                           \
    }                                                                                              \
    static void results_##size(const struct wino_results *tile)                                    \
    {                                                                                              \
        results(&size, tile);                                                                      \
    }                                                                                              \
    static const struct wino_transforms transforms_##size = {filters_##size, input_##size,         \
                                                             results_##size};

DEFINE_TRANSFORMS(large)
DEFINE_TRANSFORMS(small)
DEFINE_TRANSFORMS(strided)

static const struct wino_isa isa = {&conv2d_isa_scalar, &transforms_large, &transforms_small,
                                    &transforms_strided};

void winograd2d_f32_scalar(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}

void winograd2d_bf16_scalar(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}
