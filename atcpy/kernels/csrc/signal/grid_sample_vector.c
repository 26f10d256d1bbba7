/* grid_sample of the nearest element or a linear mix, some points of a row at a time: first which
 * elements each point takes and what they count, in loops that the compiler makes vectors of; then
 * those elements of each channel.
 */
#include "signal/grid_sample.h"

#include <math.h>

enum { POINTS = 64, MAX_TAPS = 8 };

/* Two elements along a dim for each point: their offsets in the volume, −1 outside, and weights. */
struct line {
    int32_t offset[2][POINTS];
    float weight[2][POINTS];
};

/* Elements of the volume for each point; an index below 0 counts as 0. */
struct taps {
    int count;
    bool outside; /* whether an index is below 0 */
    int32_t index[MAX_TAPS][POINTS];
    float weight[MAX_TAPS][POINTS];
};

/* What n points take along a dim, of whose grid `at` is the first number; `step` is the distance of
 * two elements in the volume.
 */
static void find_line(const struct grid_sample_params *p, int dim, const float *at, int32_t step,
                      int64_t n, struct line *line)
{
    const float size = (float)p->in[dim], last = size - 1;
    const bool border = p->padding == GRID_BORDER;
    /* What lies further outside takes nothing, or the edge. NaN goes to the lower end. */
    const float edge = p->align_corners ? 0 : -0.5f;
    const float low = border ? 0 : -2, high = border ? last : size + 1;
    for (int64_t i = 0; i < n; i++) {
        const float g = at[i * p->dims];
        const float wide = p->align_corners ? (g + 1) / 2 * last : ((g + 1) * size - 1) / 2;
        const float above = wide > low ? wide : low, x = above < high ? above : high;
        const float whole = p->mode == GRID_NEAREST ? rintf(x) : floorf(x);
        /* Far away, and between an edge and its last element, that one counts alone. Both sides of
         * each condition are taken: branches are no vectors.
         */
        const bool is_far = (wide <= -1e9f) | (wide >= 1e9f) | (wide != wide);
        const bool is_edge =
            ((wide < 0) & (wide >= edge)) | ((wide > last) & (wide <= last - edge));
        const bool is_single = is_far | (border & is_edge);
        const float next = border & (whole + 1 > last) ? last : whole + 1;
        const int32_t low_at = (int32_t)whole * step, next_at = (int32_t)next * step;
        line->offset[0][i] = (whole >= 0) & (whole <= last) ? low_at : -1;
        line->offset[1][i] = !is_single & (next >= 0) & (next <= last) ? next_at : -1;
        line->weight[0][i] = p->mode == GRID_NEAREST ? 1 : 1 - (x - whole);
        line->weight[1][i] = x - whole;
    }
}

/* Doubles the taps by the two elements of one more dim. */
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
        join_line(&line, p->mode == GRID_NEAREST ? 1 : 2, n, taps);
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
    else if (taps->outside)
        mix(taps, 8, true, x, n, y);
    else if (taps->count == 1)
        mix(taps, 1, false, x, n, y);
    else if (taps->count == 4)
        mix(taps, 4, false, x, n, y);
    else
        mix(taps, 8, false, x, n, y);
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
