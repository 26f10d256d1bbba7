/* col2im: sums columns of blocks into the image that the blocks were cut from.
 *
 *     x  [planes, kernel…, cols…]
 *     y  [planes, image…]; tap k of block j is added to element i = j · stride + k · dilation − pad
 */
#include "core/pieces.h"

enum { COL2IM_DIMS = 3 };

#define COL2IM_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(planes)                                                                                    \
    I64S(image, COL2IM_DIMS) I64S(kernel, COL2IM_DIMS) I64S(cols, COL2IM_DIMS)                     \
        I64S(stride, COL2IM_DIMS) I64S(dilation, COL2IM_DIMS) I64S(pad, COL2IM_DIMS)
DECLARE_PARAMS(col2im, COL2IM_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct col2im_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->planes) || !atc_sizes_ok(p->image, COL2IM_DIMS, 1) ||
        !atc_sizes_ok(p->kernel, COL2IM_DIMS, 1) || !atc_sizes_ok(p->cols, COL2IM_DIMS, 1) ||
        !atc_sizes_ok(p->stride, COL2IM_DIMS, 1) || !atc_sizes_ok(p->dilation, COL2IM_DIMS, 1) ||
        !atc_sizes_ok(p->pad, COL2IM_DIMS, 0))
        return "a size is out of range";
    for (int i = 0; i < COL2IM_DIMS; i++)
        if (atc_add(atc_mul(p->cols[i], p->stride[i]), atc_mul(p->kernel[i], p->dilation[i])) >=
            ATC_TOO_BIG)
            return "the blocks reach too far";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[0].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype);
    const int64_t columns = atc_mul(atc_volume(p->kernel), atc_volume(p->cols));
    if (!atc_holds(task, task->src, dtype, atc_mul(p->planes, columns), item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(p->planes, atc_volume(p->image)), item))
        return "an operand is too small or of another type";
    return NULL;
}

/* An item is a plane. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct col2im_params *p = params;
    const int64_t columns = atc_mul(atc_volume(p->kernel), atc_volume(p->cols));
    return (struct kernel_cost){.items = p->planes,
                                .work = atc_mul(p->planes, atc_add(columns, atc_volume(p->image)))};
}

DEFINE_FAMILY(col2im, COL2IM_FIELDS, .check = check, .cost = cost);

/* Where tap k of block j lies along a dim, or −1 in the padding. */
static int64_t image_index(const struct col2im_params *p, int dim, int64_t j, int64_t k)
{
    const int64_t at = j * p->stride[dim] + k * p->dilation[dim] - p->pad[dim];
    return at < p->image[dim] ? at : -1;
}

#define DEFINE_COL2IM(T, suffix)                                                                   \
    /* One tap of all blocks; returns the columns after its own. */                                \
    static const T *add_tap_##suffix(struct atc_meter *meter, T *y, const T *x, int64_t kd,        \
                                     int64_t kh, int64_t kw)                                       \
    {                                                                                              \
        const struct col2im_params *p = meter->args->params;                                       \
        for (int64_t jd = 0; jd < p->cols[0]; jd++)                                                \
            for (int64_t jh = 0; jh < p->cols[1]; jh++, x += p->cols[2]) {                         \
                const int64_t d = image_index(p, 0, jd, kd), h = image_index(p, 1, jh, kh);        \
                if (atc_spend(meter, p->cols[2]))                                                  \
                    return x;                                                                      \
                struct atc_piece piece = {0};                                                      \
                while (d >= 0 && h >= 0 && atc_next_piece(meter->args, &piece, p->cols[2]))        \
                    for (int64_t jw = piece.begin; jw < piece.end; jw++) {                         \
                        const int64_t w = image_index(p, 2, jw, kw);                               \
                        if (w >= 0)                                                                \
                            y[(d * p->image[1] + h) * p->image[2] + w] += x[jw];                   \
                    }                                                                              \
            }                                                                                      \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    void col2im_##suffix##_scalar(const struct kernel_args *args)                                  \
    {                                                                                              \
        const struct col2im_params *p = args->params;                                              \
        struct atc_meter meter = {.args = args};                                                   \
        const int64_t image = p->image[0] * p->image[1] * p->image[2];                             \
        const int64_t columns = p->kernel[0] * p->kernel[1] * p->kernel[2] * p->cols[0] *          \
                                p->cols[1] * p->cols[2];                                           \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const T *x = (const T *)args->src[0] + item * columns;                                 \
            T *y = (T *)args->dst[0] + item * image;                                               \
            atc_clear(args, y, image * (int64_t)sizeof *y);                                        \
            for (int64_t kd = 0; kd < p->kernel[0]; kd++)                                          \
                for (int64_t kh = 0; kh < p->kernel[1]; kh++)                                      \
                    for (int64_t kw = 0; kw < p->kernel[2] && !atc_spend(&meter, 1); kw++)         \
                        x = add_tap_##suffix(&meter, y, x, kd, kh, kw);                                 \
        }                                                                                          \
    }

DEFINE_COL2IM(float, f32)
DEFINE_COL2IM(double, f64)
