/* col2im, plainly. */
#include "conv/col2im.h"

#include <string.h>

/* Where tap k of block j lies along a dim, or −1 in the padding. */
static int64_t place(const struct col2im_params *p, int dim, int64_t j, int64_t k)
{
    const int64_t at = j * p->stride[dim] + k * p->dilation[dim] - p->pad[dim];
    return at < p->image[dim] ? at : -1;
}

#define DEFINE_COL2IM(T, suffix)                                                                   \
    /* One tap of all blocks; returns the columns after its own. */                                \
    static const T *add_tap_##suffix(const struct col2im_params *p, T *y, const T *x, int64_t kd,  \
                                     int64_t kh, int64_t kw)                                       \
    {                                                                                              \
        for (int64_t jd = 0; jd < p->cols[0]; jd++)                                                \
            for (int64_t jh = 0; jh < p->cols[1]; jh++, x += p->cols[2]) {                         \
                const int64_t d = place(p, 0, jd, kd), h = place(p, 1, jh, kh);                    \
                for (int64_t jw = 0; jw < p->cols[2] && d >= 0 && h >= 0; jw++) {                  \
                    const int64_t w = place(p, 2, jw, kw);                                         \
                    if (w >= 0)                                                                    \
                        y[(d * p->image[1] + h) * p->image[2] + w] += x[jw];                       \
                }                                                                                  \
            }                                                                                      \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    void col2im_##suffix##_scalar(const struct kernel_args *args)                                  \
    {                                                                                              \
        const struct col2im_params *p = args->params;                                              \
        const int64_t image = p->image[0] * p->image[1] * p->image[2];                             \
        const int64_t columns = p->kernel[0] * p->kernel[1] * p->kernel[2] * p->cols[0] *          \
                                p->cols[1] * p->cols[2];                                           \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const T *x = (const T *)args->src[0] + item * columns;                                 \
            T *y = (T *)args->dst[0] + item * image;                                               \
            memset(y, 0, (size_t)image * sizeof *y);                                               \
            for (int64_t kd = 0; kd < p->kernel[0]; kd++)                                          \
                for (int64_t kh = 0; kh < p->kernel[1]; kh++)                                      \
                    for (int64_t kw = 0; kw < p->kernel[2]; kw++)                                  \
                        x = add_tap_##suffix(p, y, x, kd, kh, kw);                                 \
        }                                                                                          \
    }

DEFINE_COL2IM(float, f32)
DEFINE_COL2IM(double, f64)
