/* poolnd of floats on vectors: the largest or the mean, by rows. */
#include "pooling/pool_row_vector.h"
#include "pooling/poolnd.h"

static inline __attribute__((always_inline)) struct pool_rows
rows_of(const struct kernel_args *args, int64_t plane, int64_t od, int64_t oh)
{
    const struct poolnd_params *p = args->params;
    const struct pool2d_taps d = poolnd_taps(p, 0, od), h = poolnd_taps(p, 1, oh);
    const bool is_inside = d.first < d.last && h.first < h.last;
    const int64_t d0 = od * p->stride[0] - p->pad_begin[0] + d.first * p->dilation[0];
    const int64_t h0 = oh * p->stride[1] - p->pad_begin[1] + h.first * p->dilation[1];
    const int64_t first = is_inside ? (plane * p->in[0] + d0) * p->in[1] + h0 : 0;
    return (struct pool_rows){
        .first = (const float *)args->src[0] + first * p->in[2],
        .depth = is_inside ? d.last - d.first : 0,
        .depth_step = p->dilation[0] * p->in[1] * p->in[2],
        .height = h.last - h.first,
        .height_step = p->dilation[1] * p->in[2],
        .count = poolnd_count(p, 0, od) * poolnd_count(p, 1, oh),
    };
}

void FOR_ISA(poolnd_rows_f32)(const struct kernel_args *args)
{
    const struct poolnd_params *p = args->params;
    const struct pool_windows windows = {
        .is_max = p->kind == POOLND_MAX,
        .include_pad = p->include_pad,
        .od = p->out[0],
        .oh = p->out[1],
        .w = p->in[2],
        .ow = p->out[2],
        .kernel = p->kernel[2],
        .stride = p->stride[2],
        .dilation = p->dilation[2],
        .pad_begin = p->pad_begin[2],
        .pad_end = p->pad_end[2],
    };
    pool_row_run(args, windows, rows_of);
}
