/* convnd for every ISA: a row of results takes up one row of the input, scaled by one weight, after
 * another. The compiler makes vectors of the innermost loop; each element's sum is in the order of
 * the taps, whatever their width.
 */
#include "conv/convnd.h"

/* The input index that tap k of result o reads in a dim; false if it is in the padding. */
static inline bool convnd_input_index(const struct convnd_params *p, int dim, int64_t o, int64_t k,
                                      int64_t *index)
{
    if (p->transposed) {
        const int64_t reach = o + p->pad[dim] - k * p->dilation[dim];
        *index = reach / p->stride[dim];
        return reach >= 0 && reach % p->stride[dim] == 0 && *index < p->in[dim];
    }
    *index = o * p->stride[dim] + k * p->dilation[dim] - p->pad[dim];
    return *index >= 0 && *index < p->in[dim];
}

/* Which elements of a row one tap joins: for i in [first, last), element i of the side that the
 * window slides over meets element i · stride + offset of the other side.
 */
struct convnd_run {
    int64_t first, last, offset;
};

static inline __attribute__((always_inline)) struct convnd_run
convnd_run_of(const struct convnd_params *p, int64_t k)
{
    const int64_t stride = p->stride[2], count = p->transposed ? p->in[2] : p->out[2];
    const int64_t size = p->transposed ? p->out[2] : p->in[2];
    struct convnd_run run = {.offset = k * p->dilation[2] - p->pad[2]};
    run.first = run.offset < 0 ? ceil_div(-run.offset, stride) : 0;
    run.last = run.offset < size ? min_i64(count, (size - 1 - run.offset) / stride + 1) : 0;
    return run;
}

#define DEFINE_CONVND(T, suffix)                                                                   \
    static inline __attribute__((always_inline)) void convnd_join_##suffix(const struct convnd_params *p, T *restrict y,          \
                                            const T *restrict x, T w, struct convnd_run run)       \
    {                                                                                              \
        const int64_t stride = p->stride[2], offset = run.offset;                                  \
        if (stride == 1 && p->transposed)                                                          \
            for (int64_t i = run.first; i < run.last; i++)                                         \
                y[i + offset] += w * x[i];                                                         \
        else if (stride == 1)                                                                      \
            for (int64_t i = run.first; i < run.last; i++)                                         \
                y[i] += w * x[i + offset];                                                         \
        else if (p->transposed)                                                                    \
            for (int64_t i = run.first; i < run.last; i++)                                         \
                y[i * stride + offset] += w * x[i];                                                \
        else                                                                                       \
            for (int64_t i = run.first; i < run.last; i++)                                         \
                y[i] += w * x[i * stride + offset];                                                \
    }                                                                                              \
                                                                                                   \
    /* The taps of a row of the kernel where they are many elements, in pieces. Elsewhere a call in \
     * the loop over taps would cost as much as a tap.                                             \
     */                                                                                            \
    static __attribute__((noinline)) void convnd_long_##suffix(struct atc_meter *meter, T *y,      \
                                                               const T *row, const T *taps)        \
    {                                                                                              \
        const struct convnd_params *p = meter->args->params;                                       \
        for (int64_t kw = 0; kw < p->kernel[2] && !atc_spend(meter, p->out[2]); kw++) {            \
            const struct convnd_run run = convnd_run_of(p, kw);                                    \
            for (struct atc_piece piece = {run.first, run.first};                                  \
                 atc_next_piece(meter->args, &piece, run.last);)                                   \
                convnd_join_##suffix(p, y, row, taps[kw],                                          \
                                     (struct convnd_run){piece.begin, piece.end, run.offset});     \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* All taps of one channel; `x` is its volume, `w` its weights. */                             \
    static inline void convnd_channel_##suffix(struct atc_meter *meter, T *y, const T *x,          \
                                               const T *w, int64_t od, int64_t oh)                 \
    {                                                                                              \
        const struct convnd_params *p = meter->args->params;                                       \
        const int64_t work = p->kernel[2] * p->out[2];                                             \
        for (int64_t kd = 0; kd < p->kernel[0]; kd++) {                                            \
            int64_t d, h;                                                                          \
            if (!convnd_input_index(p, 0, od, kd, &d))                                             \
                continue;                                                                          \
            for (int64_t kh = 0; kh < p->kernel[1]; kh++) {                                        \
                if (!convnd_input_index(p, 1, oh, kh, &h))                                         \
                    continue;                                                                      \
                const T *row = x + (d * p->in[1] + h) * p->in[2];                                  \
                const T *taps = w + (kd * p->kernel[1] + kh) * p->kernel[2];                       \
                if (work > ATC_PIECE) {                                                            \
                    convnd_long_##suffix(meter, y, row, taps);                                     \
                    continue;                                                                      \
                }                                                                                  \
                if (atc_spend(meter, work))                                                        \
                    return;                                                                        \
                for (int64_t kw = 0; kw < p->kernel[2]; kw++)                                      \
                    convnd_join_##suffix(p, y, row, taps[kw], convnd_run_of(p, kw));               \
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
        const int64_t kernel_rows = p->kernel[0] * p->kernel[1];                                   \
        const int64_t taps = kernel_rows * p->kernel[2];                                           \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t oh = item % p->out[1], od = item / p->out[1] % p->out[0];                \
            const int64_t nm = item / p->out[1] / p->out[0], m = nm % (p->group * p->mg);          \
            const int64_t group = m / p->mg, in_group = m % p->mg;                                 \
            const int64_t channel = (nm / (p->group * p->mg) * p->group + group) * p->cg;          \
            T *y = (T *)args->dst[0] + item * p->out[2];                                           \
            for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->out[2]);)           \
                for (int64_t i = piece.begin; i < piece.end; i++)                                  \
                    y[i] = bias == NULL ? 0 : bias[m];                                             \
            for (int64_t c = 0; c < p->cg && !atc_spend(&meter, 1 + kernel_rows); c++) {           \
                const int64_t filter = p->transposed ? (group * p->cg + c) * p->mg + in_group      \
                                                     : m * p->cg + c;                              \
                convnd_channel_##suffix(&meter, y, (const T *)args->src[CONVND_X] + (channel + c) * volume, \
                                        (const T *)args->src[CONVND_W] + filter * taps, od, oh);   \
            }                                                                                      \
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
