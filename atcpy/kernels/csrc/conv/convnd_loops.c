/* convnd for every ISA: a block of results of one channel takes up a row of the input, scaled by
 * one weight, after another. The compiler makes vectors of the innermost loop; each element's sum
 * is in the order of the taps, whatever their width.
 */
#include "conv/convnd.h"

#define DEFINE_CONVND(T, suffix)                                                                   \
    /* One tap joins the part of a segment whose windows have it inside the input. */              \
    static inline void convnd_join_##suffix(T *restrict y, const T *restrict x, T w,               \
                                            struct convnd_segment s, int64_t step)                 \
    {                                                                                              \
        const int64_t count = s.last - s.first;                                                    \
        if (step == 1)                                                                             \
            for (int64_t i = 0; i < count; i++)                                                    \
                y[i] += w * x[i];                                                                  \
        else                                                                                       \
            for (int64_t i = 0; i < count; i++)                                                    \
                y[i] += w * x[i * step];                                                           \
    }                                                                                              \
                                                                                                   \
    /* All taps of one input channel; `x` is its volume, `w` its weights. */                       \
    static inline void convnd_channel_##suffix(struct atc_meter *meter, T *sums, const T *x,       \
                                               const T *w, const struct convnd_item *item,         \
                                               struct convnd_segment s)                            \
    {                                                                                              \
        const struct convnd_params *p = meter->args->params;                                       \
        for (int64_t kd = 0; kd < p->kernel[0]; kd++) {                                            \
            int64_t offset;                                                                        \
            if (atc_spend(meter, 1) || !convnd_meets(p, item, 0, kd, &offset))                     \
                continue;                                                                          \
            const int64_t d = s.d * item->x_step[0] + offset;                                      \
            for (int64_t kh = 0; kh < p->kernel[1] && d >= 0 && d < p->in[0]; kh++) {              \
                if (atc_spend(meter, 1) || !convnd_meets(p, item, 1, kh, &offset))                 \
                    continue;                                                                      \
                const int64_t h = s.h * item->x_step[1] + offset;                                  \
                if (h < 0 || h >= p->in[1])                                                        \
                    continue;                                                                      \
                const T *row = x + (d * p->in[1] + h) * p->in[2];                                  \
                const T *taps = w + (kd * p->kernel[1] + kh) * p->kernel[2];                       \
                for (int64_t kw = 0; kw < p->kernel[2] && !atc_spend(meter, CONVND_BLOCK); kw++) { \
                    if (!convnd_meets(p, item, 2, kw, &offset))                                    \
                        continue;                                                                  \
                    const int64_t step = item->x_step[2];                                          \
                    const struct convnd_segment in = convnd_inside(p, s, step, offset);            \
                    if (in.first < in.last)                                                        \
                        convnd_join_##suffix(sums + in.first - s.first,                            \
                                             row + in.first * step + offset, taps[kw], in, step);  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void convnd_##suffix(const struct kernel_args *args)                                    \
    {                                                                                              \
        const struct convnd_params *p = args->params;                                              \
        const T *bias = args->src[CONVND_BIAS];                                                    \
        struct atc_meter meter = {.args = args};                                                   \
        const int64_t volume = p->in[0] * p->in[1] * p->in[2];                                     \
        const int64_t results = p->out[0] * p->out[1] * p->out[2];                                 \
        const int64_t taps = p->kernel[0] * p->kernel[1] * p->kernel[2];                           \
        struct convnd_segment segments[CONVND_BLOCK];                                              \
        for (int64_t number = args->begin; number < args->end; number++) {                         \
            const struct convnd_item item = convnd_find_item(p, number);                           \
            const int64_t first_c = (item.image * p->group + item.group) * p->cg;                  \
            const int n = convnd_cut(p, &item, segments);                                          \
            for (int64_t i = 0; i < p->mg && !atc_was_stopped(args); i++)                          \
                for (int at = 0; at < n; at++) {                                                   \
                    const struct convnd_segment s = segments[at];                                  \
                    const int64_t m = item.group * p->mg + i, count = s.last - s.first;            \
                    T sums[CONVND_BLOCK];                                                          \
                    for (int64_t j = 0; j < count; j++)                                            \
                        sums[j] = bias == NULL ? 0 : bias[m];                                      \
                    for (int64_t c = 0; c < p->cg && !atc_spend(&meter, 1); c++) {                 \
                        const int64_t filter =                                                     \
                            p->transposed ? (item.group * p->cg + c) * p->mg + i : m * p->cg + c;  \
                        convnd_channel_##suffix(                                                   \
                            &meter, sums, (const T *)args->src[CONVND_X] + (first_c + c) * volume, \
                            (const T *)args->src[CONVND_W] + filter * taps, &item, s);             \
                    }                                                                              \
                    T *y = (T *)args->dst[0] + (item.image * p->group * p->mg + m) * results + s.y; \
                    for (int64_t j = 0; j < count; j++)                                            \
                        y[j * item.step[2]] = sums[j];                                             \
                }                                                                                  \
        }                                                                                          \
    }

DEFINE_CONVND(float, f32)
DEFINE_CONVND(double, f64)

void FOR_ISA(convnd_f32)(const struct kernel_args *args)
{
    convnd_f32(args);
}

void FOR_ISA(convnd_f64)(const struct kernel_args *args)
{
    convnd_f64(args);
}
