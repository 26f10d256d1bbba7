/* The depthwise2d family. */
#include "conv/depthwise2d.h"

#include <string.h>

static int64_t blocks(int64_t c)
{
    return (c + DW_C0 - 1) / DW_C0;
}

static const char *check(const struct task_view *task)
{
    const struct depthwise2d_params *p = task->params;
    if (task->n_src < 2 || task->n_src > DW_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->n, p->c, p->h, p->w, p->m, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw,
                      p->dh, p->dw) ||
        !ATC_SIZES_OK(0, p->pt, p->pl))
        return "a size is out of range";
    if (p->m != p->c)
        return "as many results as channels are needed";
    const int64_t window_h = atc_add(atc_mul(p->oh - 1, p->sh), atc_mul(p->kh - 1, p->dh));
    const int64_t window_w = atc_add(atc_mul(p->ow - 1, p->sw), atc_mul(p->kw - 1, p->dw));
    if (window_h >= ATC_TOO_BIG || window_w >= ATC_TOO_BIG)
        return "the windows reach too far";

    const int64_t channels = blocks(p->c) * DW_C0;
    const int64_t x = atc_mul(atc_mul(p->n, channels), atc_mul(p->h, p->w));
    const int64_t y = atc_mul(atc_mul(p->n, channels), atc_mul(p->oh, p->ow));
    const int64_t w = atc_mul(channels, atc_mul(p->kh, p->kw));
    if (!atc_holds(task->src + DW_X, DTYPE_F32, x, 4) ||
        !weights_fit(task->src + DW_W, p->weights, w) || !atc_holds(task->dst, DTYPE_F32, y, 4))
        return "an operand is too small or of another type";
    for (int i = DW_BIAS; i < task->n_src; i++) {
        if (task->src[i].region == REGION_NONE)
            continue;
        if (!atc_holds(task->src + i, DTYPE_F32, i == DW_RESIDUAL ? y : p->c, 4))
            return "bias, residual or scale is too small or not float32";
        if (i == DW_SCALE && p->weights == WEIGHTS_F32)
            return "a scale of weights that are not widened";
    }
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct depthwise2d_params *p = params;
    const int64_t results = atc_mul(atc_mul(p->n, blocks(p->c)), atc_mul(p->oh, p->ow));
    return (struct kernel_cost){
        .items = p->n * blocks(p->c) * dw_chunks(p),
        .work = atc_mul(results, atc_mul(p->kh, p->kw)),
        .scratch = p->weights == WEIGHTS_F32 ? 0 : atc_mul(p->kh * p->kw, DW_C0 * 4)};
}

DEFINE_FAMILY(depthwise2d, DEPTHWISE2D_FIELDS, .check = check, .cost = cost,
              .inplace = 1u << DW_RESIDUAL);

/* The weights of a block of channels. */
static const float *weights_of(const struct kernel_args *args, int64_t block, widen_fn widen)
{
    const struct depthwise2d_params *p = args->params;
    const int64_t count = p->kh * p->kw * DW_C0;
    if (p->weights == WEIGHTS_F32)
        return (const float *)args->src[DW_W] + block * count;
    float scale[DW_C0] = {0};
    const float *scales = args->src[DW_SCALE];
    for (int64_t i = 0; scales != NULL && i < DW_C0 && block * DW_C0 + i < p->c; i++)
        scale[i] = scales[block * DW_C0 + i];
    widen((enum weight_type)p->weights, (const uint16_t *)args->src[DW_W] + block * count,
          scales != NULL ? scale : NULL, args->scratch, count);
    return args->scratch;
}

struct dw_item dw_item_at(const struct kernel_args *args, int64_t item, widen_fn widen)
{
    const struct depthwise2d_params *p = args->params;
    const int64_t chunk = item % dw_chunks(p), plane = item / dw_chunks(p);
    const int64_t block = plane % blocks(p->c);
    const float *residual = args->src[DW_RESIDUAL];
    const int64_t y_at = plane * p->oh * p->ow * DW_C0;
    struct dw_item at = {
        .first_row = chunk * DW_ROWS,
        .end_row = (chunk + 1) * DW_ROWS < p->oh ? (chunk + 1) * DW_ROWS : p->oh,
        .x = (const float *)args->src[DW_X] + plane * p->h * p->w * DW_C0,
        .w = weights_of(args, block, widen),
        .residual = residual ? residual + y_at : NULL,
        .y = (float *)args->dst[0] + y_at,
    };
    if (args->src[DW_BIAS] != NULL) {
        const int64_t first = block * DW_C0;
        const int64_t count = p->c - first < DW_C0 ? p->c - first : DW_C0;
        memcpy(at.bias, (const float *)args->src[DW_BIAS] + first, (size_t)count * sizeof *at.bias);
    }
    return at;
}
