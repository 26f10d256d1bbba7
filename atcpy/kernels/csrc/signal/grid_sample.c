/* grid_sample by its definition, and its checker. */
#include "signal/grid_sample.h"

#include <math.h>

const char *const grid_mode_names[] = {"nearest", "linear", "cubic", NULL};
const char *const grid_padding_names[] = {"zeros", "border", "reflection", NULL};

enum { MAX_SIDE = 1 << 24 }; /* sides that float32 counts exactly */

static const char *check(const struct task_view *task)
{
    const struct grid_sample_params *p = task->params;
    const int64_t counts[] = {p->n, p->c};
    if (task->n_src != GRID_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(counts, 2, 1) || !atc_sizes_ok(p->in, GRID_DIMS, 1) ||
        !atc_sizes_ok(p->out, GRID_DIMS, 1))
        return "a size is out of range";
    for (int i = 0; i < GRID_DIMS; i++)
        if (p->in[i] > MAX_SIDE)
            return "a side is too long";
    if (p->dims < 2 || p->dims > GRID_DIMS || (p->dims == 2 && p->in[0] != 1))
        return "the grid has neither two nor three dims";
    if (p->align_corners != 0 && p->align_corners != 1)
        return "align_corners is neither 0 nor 1";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[GRID_X].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype), planes = atc_mul(p->n, p->c);
    const int64_t points = atc_mul(p->n, atc_volume(p->out));
    if (!atc_holds(task, task->src + GRID_X, dtype, atc_mul(planes, atc_volume(p->in)), item) ||
        !atc_holds(task, task->src + GRID_GRID, dtype, atc_mul(points, p->dims), item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(planes, atc_volume(p->out)), item))
        return "an operand is too small or of another type";
    return NULL;
}

/* Points of a row are taken together where no more than 16 elements mix. */
bool grid_sample_in_blocks(const struct task_view *task)
{
    const struct grid_sample_params *p = task->params;
    return (p->mode != GRID_CUBIC || p->dims == 2) && atc_volume(p->in) <= INT32_MAX / 4;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct grid_sample_params *p = params;
    const int64_t taps = p->mode == GRID_CUBIC ? 64 : 8;
    const int64_t groups = ceil_div(p->c, grid_sample_group(p));
    return (struct kernel_cost){.items = atc_mul(p->n * p->out[0] * p->out[1], groups),
                                .work = atc_mul(atc_mul(p->n, atc_volume(p->out)),
                                                atc_add(atc_mul(p->c, taps), groups * 64))};
}

DEFINE_FAMILY(grid_sample, GRID_SAMPLE_FIELDS, .check = check, .cost = cost);

/* The indices along a dim that a result is mixed of, and what each counts; −1 counts as 0. */
#define DEFINE_GRID_SAMPLE(T, suffix, floor_, round_)                                              \
    struct taps_##suffix {                                                                         \
        int count;                                                                                 \
        int64_t index[GRID_TAPS];                                                                  \
        T weight[GRID_TAPS];                                                                       \
    };                                                                                             \
                                                                                                   \
    static T reflect_##suffix(T x, T low, T high)                                                  \
    {                                                                                              \
        const T range = high - low;                                                                \
        if (range <= 0)                                                                            \
            return low;                                                                            \
        if (x >= low && x <= high)                                                                 \
            return x;                                                                              \
        const bool below = x < low;                                                                \
        const T far = below ? low - x : x - high;                                                  \
        const T periods = floor_(far / range), rest = far - periods * range;                       \
        const bool even = periods / 2 == floor_(periods / 2);                                      \
        return even == below ? low + rest : high - rest;                                           \
    }                                                                                              \
                                                                                                   \
    static int64_t index_##suffix(const struct grid_sample_params *p, int dim, T x, T low, T high) \
    {                                                                                              \
        const int64_t size = p->in[dim];                                                           \
        if (p->padding == GRID_REFLECTION)                                                         \
            x = reflect_##suffix(x, low, high);                                                    \
        const int64_t at = (int64_t)x;                                                             \
        if (p->padding == GRID_ZEROS)                                                              \
            return at >= 0 && at < size ? at : -1;                                                 \
        return at < 0 ? 0 : at < size ? at : size - 1;                                             \
    }                                                                                              \
                                                                                                   \
    static T cubic_##suffix(T x)                                                                   \
    {                                                                                              \
        const T a = (T)-0.75;                                                                      \
        return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1                                        \
                      : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;                                 \
    }                                                                                              \
                                                                                                   \
    static struct taps_##suffix taps_of_##suffix(const struct grid_sample_params *p, int dim,      \
                                                 T at)                                             \
    {                                                                                              \
        const T size = (T)p->in[dim];                                                              \
        const T low = p->align_corners ? 0 : (T)-0.5;                                              \
        const T high = p->align_corners ? size - 1 : size - (T)0.5;                                \
        T x = p->align_corners ? (at + 1) / 2 * (size - 1) : ((at + 1) * size - 1) / 2;            \
        /* Further away than any image is large, or not a number. */                               \
        if (!(x > -(T)1e9 && x < (T)1e9))                                                          \
            x = p->padding == GRID_ZEROS ? GRID_OUTSIDE : x > 0 ? size - 1 : 0;                    \
        if (p->mode == GRID_NEAREST)                                                               \
            x = round_(x);                                                                         \
        if (p->padding == GRID_BORDER && (x < low || x > high))                                    \
            x = x < 0 ? 0 : x > size - 1 ? size - 1 : x;                                           \
        if (p->padding == GRID_REFLECTION)                                                         \
            x = reflect_##suffix(x, low, high);                                                    \
        if (p->mode == GRID_NEAREST)                                                               \
            return (struct taps_##suffix){1, {index_##suffix(p, dim, x, low, high)}, {1}};         \
        const T whole = floor_(x), part = x - whole;                                               \
        struct taps_##suffix taps = {.count = p->mode == GRID_LINEAR ? 2 : 4};                     \
        const int first = p->mode == GRID_LINEAR ? 0 : -1;                                         \
        for (int i = 0; i < taps.count; i++) {                                                     \
            const T distance = part > (T)(first + i) ? part - (T)(first + i)                       \
                                                     : (T)(first + i) - part;                      \
            taps.index[i] = index_##suffix(p, dim, whole + (T)(first + i), low, high);             \
            taps.weight[i] = p->mode == GRID_LINEAR ? 1 - distance : cubic_##suffix(distance);     \
        }                                                                                          \
        return taps;                                                                               \
    }                                                                                              \
                                                                                                   \
    static T mix_##suffix(const struct grid_sample_params *p, const T *x,                          \
                          const struct taps_##suffix *taps)                                        \
    {                                                                                              \
        T volume = 0;                                                                              \
        for (int d = 0; d < taps[0].count; d++) {                                                  \
            T plane = 0;                                                                           \
            for (int h = 0; h < taps[1].count; h++) {                                              \
                const int64_t z = taps[0].index[d], y = taps[1].index[h];                          \
                T row = 0;                                                                         \
                for (int w = 0; w < taps[2].count && z >= 0 && y >= 0; w++)                        \
                    if (taps[2].index[w] >= 0)                                                     \
                        row += taps[2].weight[w] *                                                 \
                               x[(z * p->in[1] + y) * p->in[2] + taps[2].index[w]];                \
                plane += taps[1].weight[h] * row;                                                  \
            }                                                                                      \
            volume += taps[0].weight[d] * plane;                                                   \
        }                                                                                          \
        return volume;                                                                             \
    }                                                                                              \
                                                                                                   \
    void grid_sample_##suffix##_scalar(const struct kernel_args *args)                             \
    {                                                                                              \
        const struct grid_sample_params *p = args->params;                                         \
        const int64_t in = p->in[0] * p->in[1] * p->in[2];                                         \
        struct atc_meter meter = {.args = args};                                                   \
        const int64_t rows = p->out[0] * p->out[1], columns = p->out[2];                           \
        for (int64_t number = args->begin; number < args->end; number++) {                         \
            const struct grid_item item = grid_item_at(p, number);                                 \
            const int64_t channels = item.image * p->c;                                            \
            for (int64_t column = 0; column < columns; column++) {                                 \
                if (atc_spend(&meter, 16))                                                         \
                    return;                                                                        \
                const int64_t point = item.row * columns + column;                                 \
                const T *grid = (const T *)args->src[GRID_GRID] +                                  \
                                (item.image * rows * columns + point) * p->dims;                   \
                struct taps_##suffix taps[GRID_DIMS] = {{1, {0}, {1}}};                            \
                for (int64_t i = 0; i < p->dims; i++) {                                            \
                    const int dim = GRID_DIMS - 1 - (int)i;                                        \
                    taps[dim] = taps_of_##suffix(p, dim, grid[i]);                                 \
                }                                                                                  \
                for (int64_t c = item.begin; c < item.end && !atc_spend(&meter, 8); c++)           \
                    ((T *)args->dst[0])[(channels + c) * rows * columns + point] =                 \
                        mix_##suffix(p, (const T *)args->src[GRID_X] + (channels + c) * in, taps); \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_GRID_SAMPLE(float, f32, floorf, nearbyintf)
DEFINE_GRID_SAMPLE(double, f64, floor, nearbyint)
