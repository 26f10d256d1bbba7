/* convnd on AVX-512, where windows of a row lie side by side: all taps of a vector of results are
 * added in registers, in the order of the scalar kernel.
 */
#include "conv/convnd.h"
#include "conv/lanes_avx512.h"

/* Some results of a row, by the taps along the last dim. */
struct vector_results {
    struct convnd_segment segment;
    int64_t first; /* the first lane's number in its row */
    bool all;      /* lanes meet all taps */
    __mmask16 lanes[CONVND_ROW_TAPS];
    int64_t from[CONVND_ROW_TAPS];
};

static void find_taps(const struct convnd_params *p, struct vector_results *v)
{
    v->all = true;
    for (int64_t k = 0; k < p->kernel[2]; k++) {
        const int64_t i = v->first + k * p->dilation[2] - p->pad[2];
        v->lanes[k] = lanes_inside(i, p->in[2]) & lanes_inside(0, v->segment.last - v->first);
        v->all &= v->lanes[k] == 0xffff;
        /* A load of no lanes from a page that is not there takes hundreds of cycles. */
        v->from[k] = v->lanes[k] == 0 ? 0 : i;
    }
}

/* Lanes beyond the row are left as they are, whatever their product. CPUs do not read ahead of
 * masked loads: they are for the ends of memory.
 */
static inline __attribute__((always_inline)) __m512 add_taps(__m512 sum, const float *row,
                                                             const float *w, int64_t n,
                                                             const struct vector_results *v,
                                                             bool is_inside)
{
    for (int64_t k = 0; k < n; k++) {
        const float *x = row + v->from[k];
        const __m512 loaded =
            is_inside ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(v->lanes[k], x);
        const __m512 product = _mm512_mul_ps(_mm512_set1_ps(w[k]), loaded);
        sum = v->all ? _mm512_add_ps(sum, product)
                     : _mm512_mask_add_ps(sum, v->lanes[k], sum, product);
    }
    return sum;
}

/* Adds the taps of one channel, of which `x` is the volume and `w` the weights. */
static inline __attribute__((always_inline)) __m512 add_channel(struct atc_meter *meter, __m512 sum,
                                                                const float *x, const float *w,
                                                                const struct vector_results *v,
                                                                int64_t kernel)
{
    const struct convnd_params *p = meter->args->params;
    const int64_t volume = p->in[0] * p->in[1] * p->in[2];
    for (int64_t kd = 0; kd < p->kernel[0] && !atc_spend(meter, 1); kd++) {
        const int64_t d = v->segment.d * p->stride[0] + kd * p->dilation[0] - p->pad[0];
        if (d < 0 || d >= p->in[0])
            continue;
        for (int64_t kh = 0; kh < p->kernel[1] && !atc_spend(meter, LANES); kh++) {
            const int64_t h = v->segment.h * p->stride[1] + kh * p->dilation[1] - p->pad[1];
            if (h < 0 || h >= p->in[1])
                continue;
            const int64_t row = (d * p->in[1] + h) * p->in[2];
            const float *taps = w + (kd * p->kernel[1] + kh) * kernel;
            if (row >= LANES && row + p->in[2] + LANES <= volume)
                sum = add_taps(sum, x + row, taps, kernel, v, true);
            else
                sum = add_taps(sum, x + row, taps, kernel, v, v->all);
        }
    }
    return sum;
}

static inline __attribute__((always_inline)) void run_segment(struct atc_meter *meter,
                                                              const struct convnd_item *item,
                                                              const struct convnd_segment *segment,
                                                              int64_t m, int64_t kernel)
{
    const struct kernel_args *args = meter->args;
    const struct convnd_params *p = args->params;
    const float *bias = args->src[CONVND_BIAS];
    const int64_t volume = p->in[0] * p->in[1] * p->in[2];
    const int64_t results = p->out[0] * p->out[1] * p->out[2];
    const int64_t taps = p->kernel[0] * p->kernel[1] * kernel;
    const int64_t first_c = (item->image * p->group + item->group) * p->cg;
    const float *x = (const float *)args->src[CONVND_X] + first_c * volume;
    const float *w = (const float *)args->src[CONVND_W] + m * p->cg * taps;
    float *y = (float *)args->dst[0] + (item->image * p->group * p->mg + m) * results + segment->y;
    struct vector_results v = {.segment = *segment};
    for (v.first = segment->first; v.first < segment->last; v.first += LANES, y += LANES) {
        find_taps(p, &v);
        __m512 sum = _mm512_set1_ps(bias == NULL ? 0 : bias[m]);
        for (int64_t c = 0; c < p->cg && !atc_spend(meter, 1); c++)
            sum = add_channel(meter, sum, x + c * volume, w + c * taps, &v, kernel);
        _mm512_mask_storeu_ps(y, lanes_inside(0, segment->last - v.first), sum);
    }
}

void convnd_rows_f32_avx512f(const struct kernel_args *args)
{
    const struct convnd_params *p = args->params;
    struct atc_meter meter = {.args = args};
    struct convnd_segment segments[CONVND_BLOCK];
    for (int64_t number = args->begin; number < args->end; number++) {
        const struct convnd_item item = convnd_find_item(p, number);
        const int n = convnd_cut(p, &item, segments);
        for (int64_t i = 0; i < p->mg && !atc_was_stopped(args); i++)
            for (int at = 0; at < n; at++)
                if (p->kernel[2] == 3) /* a loop of constant length, for what is most common */
                    run_segment(&meter, &item, segments + at, item.group * p->mg + i, 3);
                else
                    run_segment(&meter, &item, segments + at, item.group * p->mg + i, p->kernel[2]);
    }
}
