/* grid_sample, some points of a row at a time: first which elements each point takes and what they
 * count, in loops that the compiler makes vectors of; then those elements of each channel.
 */
#include "signal/grid_sample.h"

#include <math.h>

enum { POINTS = 64, MAX_TAPS = 16 };

/* Elements along a dim for each point: their offsets in the volume, −1 outside, and weights. */
struct line {
    int32_t offset[GRID_TAPS][POINTS];
    float weight[GRID_TAPS][POINTS];
};

/* Elements of the volume for each point; an index below 0 counts as 0. */
struct taps {
    int count;
    bool outside; /* whether an index is below 0 */
    int32_t index[MAX_TAPS][POINTS];
    float weight[MAX_TAPS][POINTS];
};

static inline int taps_of(int64_t mode)
{
    return mode == GRID_NEAREST ? 1 : mode == GRID_LINEAR ? 2 : 4;
}

/* Both sides of each condition are computed in the loops below: branches are no vectors. */
static inline float clamp(float x, float last)
{
    const float above = x > 0 ? x : 0;
    return above < last ? above : last;
}

static void reflect(float low, float high, int64_t n, float *x)
{
    const float range = high > low ? high - low : 1;
    for (int64_t i = 0; i < n; i++) {
        const bool is_below = x[i] < low;
        const float away = is_below ? low - x[i] : x[i] - high;
        const float periods = floorf(away / range), rest = away - periods * range;
        const bool is_even = periods / 2 == floorf(periods / 2);
        const float reflected = is_even == is_below ? low + rest : high - rest;
        const float inside = (x[i] >= low) & (x[i] <= high) ? x[i] : reflected;
        x[i] = high > low ? inside : low;
    }
}

/* Weights of tap e of four, by its distance from each point. */
static void cubic_weights(int e, const float *part, int64_t n, float *weight)
{
    const float a = -0.75f;
    for (int64_t i = 0; i < n; i++) {
        const float x = e < 2 ? part[i] + (float)(1 - e) : (float)(e - 1) - part[i];
        const float near = ((a + 2) * x - (a + 3)) * x * x + 1;
        const float far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        weight[i] = e == 1 || e == 2 ? near : far;
    }
}

/* Positions along a dim of n points, of whose grid `at` is the first number. What is not a number,
 * or further away than any image is large, lies at an end or outside.
 */
static void find_positions(const struct grid_sample_params *p, float last, const float *at,
                           int64_t n, float *x)
{
    const float size = last + 1, low = p->align_corners ? 0 : -0.5f, high = last - low;
    const float first_end = p->padding == GRID_ZEROS ? GRID_OUTSIDE : 0;
    const float last_end = p->padding == GRID_ZEROS ? GRID_OUTSIDE : last;
    for (int64_t i = 0; i < n; i++) {
        const float g = at[i * p->dims];
        const float wide = p->align_corners ? (g + 1) / 2 * last : ((g + 1) * size - 1) / 2;
        const float end = wide > 0 ? last_end : first_end;
        x[i] = (wide > -1e9f) & (wide < 1e9f) ? wide : end;
    }
    if (p->mode == GRID_NEAREST)
        for (int64_t i = 0; i < n; i++)
            x[i] = rintf(x[i]);
    if (p->padding == GRID_BORDER)
        for (int64_t i = 0; i < n; i++)
            x[i] = (x[i] < low) | (x[i] > high) ? clamp(x[i], last) : x[i];
    if (p->padding == GRID_REFLECTION)
        reflect(low, high, n, x);
}

/* What n points take along a dim; `step` is the distance of two elements in the volume. */
static void find_line(const struct grid_sample_params *p, int dim, const float *at, int32_t step,
                      int64_t n, struct line *line)
{
    const float last = (float)p->in[dim] - 1, low = p->align_corners ? 0 : -0.5f;
    const int before = p->mode == GRID_CUBIC ? 1 : 0; /* taps below that at floor(x) */
    const int32_t end = (int32_t)last, outside = p->padding == GRID_ZEROS ? -1 : 0;
    float x[POINTS], whole[POINTS], part[POINTS];
    find_positions(p, last, at, n, x);
    for (int64_t i = 0; i < n; i++) {
        whole[i] = p->mode == GRID_NEAREST ? x[i] : floorf(x[i]);
        part[i] = x[i] - whole[i];
    }
    for (int e = 0; e < taps_of(p->mode); e++) {
        float *weight = line->weight[e];
        for (int64_t i = 0; i < n; i++) {
            x[i] = whole[i] + (float)(e - before);
            weight[i] = p->mode == GRID_NEAREST ? 1 : e == 0 ? 1 - part[i] : part[i];
        }
        if (p->mode == GRID_CUBIC)
            cubic_weights(e, part, n, weight);
        if (p->padding == GRID_REFLECTION)
            reflect(low, last - low, n, x);
        for (int64_t i = 0; i < n; i++) {
            const int32_t index = (int32_t)x[i], above = index > 0 ? index : 0;
            const int32_t inside = above < end ? above : end;
            const int32_t side = index | (end - index); /* below 0 outside */
            line->offset[e][i] = ((side >> 31) & outside) | inside * step;
        }
    }
}

/* Multiplies the taps by the elements of one more dim. */
static void join_line(const struct line *line, int elements, int64_t n, struct taps *taps)
{
    for (int e = elements - 1; e >= 0; e--)
        for (int t = 0; t < taps->count; t++) {
            const int32_t *offset = line->offset[e], *index = taps->index[t];
            const float *weight = line->weight[e], *old = taps->weight[t];
            int32_t *new_index = taps->index[e * taps->count + t];
            float *new_weight = taps->weight[e * taps->count + t];
            for (int64_t i = 0; i < n; i++) {
                new_index[i] = (offset[i] | index[i]) < 0 ? -1 : index[i] + offset[i];
                new_weight[i] = weight[i] * old[i];
            }
        }
    taps->count *= elements;
}

static void find_taps(const struct grid_sample_params *p, const float *grid, int64_t n,
                      struct taps *taps)
{
    struct line line;
    taps->count = 1;
    for (int64_t i = 0; i < n; i++) {
        taps->index[0][i] = 0;
        taps->weight[0][i] = 1;
    }
    int64_t step = 1;
    for (int64_t i = 0; i < p->dims; i++) {
        const int dim = GRID_DIMS - 1 - (int)i;
        find_line(p, dim, grid + i, (int32_t)step, n, &line);
        join_line(&line, taps_of(p->mode), n, taps);
        step *= p->in[dim];
    }
    int32_t outside = 0;
    for (int t = 0; t < taps->count; t++)
        for (int64_t i = 0; i < n; i++)
            outside |= taps->index[t][i];
    taps->outside = outside < 0;
}

/* Mixes n results of one channel. The empty statement keeps the compiler from gathers, which take
 * longer than as many loads.
 */
static inline __attribute__((always_inline)) void
mix(const struct taps *taps, int count, bool outside, const float *x, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int t = 0; t < count; t++) {
            const int32_t index = taps->index[t][i];
            const float value = outside && index < 0 ? 0 : x[index];
            sum += taps->weight[t][i] * value;
        }
        y[i] = sum;
        __asm__ volatile("");
    }
}

static void mix_any(const struct taps *taps, const float *x, int64_t n, float *y)
{
    if (taps->outside && taps->count == 1)
        mix(taps, 1, true, x, n, y);
    else if (taps->outside && taps->count == 4)
        mix(taps, 4, true, x, n, y);
    else if (taps->outside && taps->count == 8)
        mix(taps, 8, true, x, n, y);
    else if (taps->outside)
        mix(taps, 16, true, x, n, y);
    else if (taps->count == 1)
        mix(taps, 1, false, x, n, y);
    else if (taps->count == 4)
        mix(taps, 4, false, x, n, y);
    else if (taps->count == 8)
        mix(taps, 8, false, x, n, y);
    else
        mix(taps, 16, false, x, n, y);
}

void FOR_ISA(grid_sample_blocks_f32)(const struct kernel_args *args)
{
    const struct grid_sample_params *p = args->params;
    const int64_t volume = p->in[0] * p->in[1] * p->in[2];
    const int64_t rows = p->out[0] * p->out[1], columns = p->out[2];
    struct atc_meter meter = {.args = args};
    struct taps taps;
    for (int64_t number = args->begin; number < args->end; number++) {
        const struct grid_item item = grid_item_at(p, number);
        for (int64_t at = 0; at < columns; at += POINTS) {
            const int64_t n = min_i64(POINTS, columns - at);
            const float *grid = (const float *)args->src[GRID_GRID] +
                                ((item.image * rows + item.row) * columns + at) * p->dims;
            if (atc_spend(&meter, 4 * POINTS))
                return;
            find_taps(p, grid, n, &taps);
            float *y = (float *)args->dst[0] + (item.image * p->c * rows + item.row) * columns + at;
            const float *x = (const float *)args->src[GRID_X] + item.image * p->c * volume;
            for (int64_t c = item.begin; c < item.end && !atc_spend(&meter, 2 * POINTS); c++)
                mix_any(&taps, x + c * volume, n, y + c * rows * columns);
        }
    }
}
