/* deform_columns: what a deformable convolution multiplies by its weights, of 2-D images.
 *
 *     x       [n, groups · channels, in]; `groups` are those that share offsets
 *     offset  [n, groups, kernel, 2, out]: by how much a tap's height and width are moved
 *     mask    [n, groups, kernel, out]; optional: 1
 *     y       [n, groups · channels, kernel, out]
 *
 * y is x at the moved position of each tap, between four elements, times the mask. What lies
 * outside of the image is zero; positions that are no numbers lie outside.
 */
#include "core/pieces.h"

#include <math.h>

enum { DEFORM_DIMS = 2, DEFORM_CORNERS = 4 };

#define DEFORM_COLUMNS_FIELDS(I64, I64S, F64, ENUM)                                                \
    I64(n)                                                                                         \
    I64(groups) I64(channels) I64S(in, DEFORM_DIMS) I64S(out, DEFORM_DIMS)                         \
        I64S(kernel, DEFORM_DIMS) I64S(stride, DEFORM_DIMS) I64S(dilation, DEFORM_DIMS)            \
            I64S(pad, DEFORM_DIMS)
DECLARE_PARAMS(deform_columns, DEFORM_COLUMNS_FIELDS)

enum { DEFORM_X, DEFORM_OFFSET, DEFORM_MASK, DEFORM_OPERANDS };

static int64_t area(const int64_t *dims)
{
    return atc_mul(dims[0], dims[1]);
}

static const char *check(const struct task_view *task)
{
    const struct deform_columns_params *p = task->params;
    if (task->n_src < 2 || task->n_src > DEFORM_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->n, p->groups, p->channels) || !atc_sizes_ok(p->in, DEFORM_DIMS, 1) ||
        !atc_sizes_ok(p->out, DEFORM_DIMS, 1) || !atc_sizes_ok(p->kernel, DEFORM_DIMS, 1) ||
        !atc_sizes_ok(p->stride, DEFORM_DIMS, 1) || !atc_sizes_ok(p->dilation, DEFORM_DIMS, 1) ||
        !atc_sizes_ok(p->pad, DEFORM_DIMS, 0))
        return "a size is out of range";
    for (int i = 0; i < DEFORM_DIMS; i++)
        if (atc_add(atc_mul(p->out[i], p->stride[i]), atc_mul(p->kernel[i], p->dilation[i])) >=
            ATC_TOO_BIG)
            return "the windows reach too far";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[DEFORM_X].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype), images = atc_mul(p->n, p->groups);
    const int64_t taps = atc_mul(images, atc_mul(area(p->kernel), area(p->out)));
    if (!atc_holds(task, task->src + DEFORM_X, dtype,
                   atc_mul(atc_mul(images, p->channels), area(p->in)), item) ||
        !atc_holds(task, task->src + DEFORM_OFFSET, dtype, atc_mul(taps, 2), item) ||
        !atc_holds_optional(task, DEFORM_MASK, dtype, taps, item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(taps, p->channels), item))
        return "an operand is too small or of another type";
    return NULL;
}

/* An item is a tap of one group in one image. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct deform_columns_params *p = params;
    const int64_t items = p->n * p->groups * area(p->kernel);
    const int64_t each = atc_mul(area(p->out), atc_add(16, atc_mul(p->channels, 4)));
    return (struct kernel_cost){.items = items, .work = atc_mul(items, each)};
}

DEFINE_FAMILY(deform_columns, DEFORM_COLUMNS_FIELDS, .check = check, .cost = cost);

#define DEFINE_DEFORM(T, suffix)                                                                   \
    /* The four elements around a position and their shares; none of an element outside. */        \
    static void find_corners_##suffix(const int64_t *in, T h, T w, int64_t at[DEFORM_CORNERS],     \
                                      T share[DEFORM_CORNERS])                                     \
    {                                                                                              \
        for (int i = 0; i < DEFORM_CORNERS; i++) {                                                 \
            at[i] = 0;                                                                             \
            share[i] = 0;                                                                          \
        }                                                                                          \
        if (!(h > -1 && h < (T)in[0] && w > -1 && w < (T)in[1]))                                   \
            return;                                                                                \
        const int64_t top = (int64_t)(h + 1) - 1, left = (int64_t)(w + 1) - 1;                     \
        const T down = h - (T)top, right = w - (T)left;                                            \
        for (int i = 0; i < DEFORM_CORNERS; i++) {                                                 \
            const int64_t y = top + i / 2, x = left + i % 2;                                       \
            if (y < 0 || y >= in[0] || x < 0 || x >= in[1])                                        \
                continue;                                                                          \
            at[i] = y * in[1] + x;                                                                 \
            share[i] = (i / 2 ? down : 1 - down) * (i % 2 ? right : 1 - right);                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    void deform_columns_##suffix##_scalar(const struct kernel_args *args)                          \
    {                                                                                              \
        const struct deform_columns_params *p = args->params;                                      \
        struct atc_meter meter = {.args = args};                                                   \
        const int64_t taps = area(p->kernel), places = area(p->out), image = area(p->in);          \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t group = item / taps, tap = item % taps;                                  \
            const int64_t first_h = tap / p->kernel[1] * p->dilation[0] - p->pad[0];               \
            const int64_t first_w = tap % p->kernel[1] * p->dilation[1] - p->pad[1];               \
            const T *x = (const T *)args->src[DEFORM_X] + group * p->channels * image;             \
            const T *offset = (const T *)args->src[DEFORM_OFFSET] + item * 2 * places;             \
            const T *mask = args->src[DEFORM_MASK];                                                \
            T *y = (T *)args->dst[0] + (group * p->channels * taps + tap) * places;                \
            for (int64_t i = 0; i < places && !atc_spend(&meter, 8); i++) {                        \
                const T h = (T)(i / p->out[1] * p->stride[0] + first_h) + offset[i];               \
                const T w = (T)(i % p->out[1] * p->stride[1] + first_w) + offset[places + i];      \
                const T factor = mask == NULL ? 1 : mask[item * places + i];                       \
                int64_t at[DEFORM_CORNERS];                                                        \
                T share[DEFORM_CORNERS];                                                           \
                find_corners_##suffix(p->in, h, w, at, share);                                     \
                for (int64_t c = 0; c < p->channels && !atc_spend(&meter, 1); c++) {               \
                    const T *plane = x + c * image;                                                \
                    const T sum = share[0] * plane[at[0]] + share[1] * plane[at[1]] +              \
                                  share[2] * plane[at[2]] + share[3] * plane[at[3]];               \
                    y[c * taps * places + i] = sum * factor;                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_DEFORM(float, f32)
DEFINE_DEFORM(double, f64)
