/* col2im for every ISA: a tap of all blocks at a time. */
#include "conv/col2im.h"
#include "core/pieces.h"

/* The blocks [begin, end) whose tap k does not lie in the padding, along the last dim. */
static void inside(const struct col2im_params *p, int64_t k, int64_t *begin, int64_t *end)
{
    const int64_t stride = p->stride[2], first = k * p->dilation[2] - p->pad[2];
    const int64_t left = p->image[2] - first; /* above it, no tap is inside */
    *begin = first < 0 ? ceil_div(-first, stride) : 0;
    *end = left <= 0 ? 0 : min_i64(p->cols[2], ceil_div(left, stride));
}

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
        const int64_t stride = p->stride[2], first = kw * p->dilation[2] - p->pad[2];              \
        int64_t begin, end;                                                                        \
        inside(p, kw, &begin, &end);                                                               \
        for (int64_t jd = 0; jd < p->cols[0]; jd++)                                                \
            for (int64_t jh = 0; jh < p->cols[1]; jh++, x += p->cols[2]) {                         \
                const int64_t d = image_index(p, 0, jd, kd), h = image_index(p, 1, jh, kh);        \
                if (atc_spend(meter, p->cols[2]))                                                  \
                    return x;                                                                      \
                if (d < 0 || h < 0)                                                                \
                    continue;                                                                      \
                T *restrict row = y + (d * p->image[1] + h) * p->image[2];                         \
                struct atc_piece piece = {begin, begin};                                           \
                while (atc_next_piece(meter->args, &piece, end))                                   \
                    if (stride == 1)                                                               \
                        for (int64_t jw = piece.begin; jw < piece.end; jw++)                       \
                            row[first + jw] += x[jw];                                                      \
                    else                                                                           \
                        for (int64_t jw = piece.begin; jw < piece.end; jw++)                       \
                            row[first + jw * stride] += x[jw];                                             \
            }                                                                                      \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    void FOR_ISA(col2im_##suffix)(const struct kernel_args *args)                                  \
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
