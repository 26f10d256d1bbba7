/* col2im for every ISA: a tap of all blocks at a time. */
#include "conv/col2im.h"
#include "core/pieces.h"

/* The blocks along a dim whose tap k does not lie in the padding; block j's lies at first + j ·
 * step. */
struct taps {
    int64_t begin, end, first, step;
};

static struct taps taps_inside(const struct col2im_params *p, int dim, int64_t k)
{
    const int64_t first = k * p->dilation[dim] - p->pad[dim], step = p->stride[dim];
    const int64_t left = p->image[dim] - first; /* above it, no tap is inside */
    return (struct taps){.begin = first < 0 ? ceil_div(-first, step) : 0,
                         .end = left <= 0 ? 0 : min_i64(p->cols[dim], ceil_div(left, step)),
                         .first = first,
                         .step = step};
}

#define DEFINE_COL2IM(T, suffix)                                                                   \
    /* One tap of a row of blocks. */                                                              \
    static void add_row_##suffix(const struct kernel_args *args, T *restrict y, const T *x,        \
                                 const struct taps *w)                                             \
    {                                                                                              \
        int64_t at = w->begin;                                                                     \
        while (at < w->end) {                                                                      \
            const int64_t end = min_i64(at + ATC_PIECE, w->end), step = w->step;                   \
            T *restrict row = y + w->first;                                                        \
            if (step == 1)                                                                         \
                for (int64_t j = at; j < end; j++)                                                 \
                    row[j] += x[j];                                                                \
            else                                                                                   \
                for (int64_t j = at; j < end; j++)                                                 \
                    row[j * step] += x[j];                                                         \
            at = end;                                                                              \
            if (at < w->end && atc_stopped(args))                                                  \
                return;                                                                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* One tap of all blocks. */                                                                   \
    static void add_tap_##suffix(struct atc_meter *meter, T *y, const T *x, int64_t kd,            \
                                 int64_t kh, int64_t kw)                                           \
    {                                                                                              \
        const struct col2im_params *p = meter->args->params;                                       \
        const struct taps d = taps_inside(p, 0, kd), h = taps_inside(p, 1, kh);                    \
        const struct taps w = taps_inside(p, 2, kw);                                               \
        for (int64_t jd = d.begin; jd < d.end; jd++)                                               \
            for (int64_t jh = h.begin; jh < h.end; jh++) {                                         \
                const int64_t row =                                                                \
                    (d.first + jd * d.step) * p->image[1] + h.first + jh * h.step;                 \
                if (atc_spend(meter, p->cols[2]))                                                  \
                    return;                                                                        \
                add_row_##suffix(meter->args, y + row * p->image[2],                               \
                                 x + (jd * p->cols[1] + jh) * p->cols[2], &w);                     \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    void FOR_ISA(col2im_##suffix)(const struct kernel_args *args)                                  \
    {                                                                                              \
        const struct col2im_params *p = args->params;                                              \
        struct atc_meter meter = {.args = args};                                                   \
        const int64_t image = p->image[0] * p->image[1] * p->image[2];                             \
        const int64_t blocks = p->cols[0] * p->cols[1] * p->cols[2];                               \
        const T *x = (const T *)args->src[0] +                                                     \
                     args->begin * p->kernel[0] * p->kernel[1] * p->kernel[2] * blocks;            \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            T *y = (T *)args->dst[0] + item * image;                                               \
            atc_clear(args, y, image * (int64_t)sizeof *y);                                        \
            for (int64_t kd = 0; kd < p->kernel[0]; kd++)                                          \
                for (int64_t kh = 0; kh < p->kernel[1]; kh++)                                      \
                    for (int64_t kw = 0; kw < p->kernel[2] && !atc_spend(&meter, 1); kw++) {       \
                        add_tap_##suffix(&meter, y, x, kd, kh, kw);                                \
                        x += blocks;                                                               \
                    }                                                                              \
        }                                                                                          \
    }

DEFINE_COL2IM(float, f32)
DEFINE_COL2IM(double, f64)
