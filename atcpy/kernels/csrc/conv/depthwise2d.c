/* The depthwise2d family. */
#include "conv/depthwise2d.h"

#include <string.h>

static int64_t blocks(int64_t c)
{
    return ceil_div(c, CONV_C0);
}

static const char *check(const struct task_view *task)
{
    const struct depthwise2d_params *p = task->params;
    if (task->n_src < 2 || task->n_src > CONV_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->n, p->c, p->h, p->w, p->m, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw,
                      p->dh, p->dw) ||
        !ATC_SIZES_OK(0, p->pt, p->pl))
        return "a size is out of range";
    if (p->weights == WEIGHTS_BF16_VNNI2)
        return "weights in pairs: one channel is multiplied alone";
    if (p->m != p->c)
        return "as many results as channels are needed";
    /* Taps may lie so many rows apart, though there be but one. */
    if (conv2d_reach(p->oh, p->sh, p->kh, p->dh) >= ATC_TOO_BIG ||
        conv2d_reach(p->ow, p->sw, p->kw, p->dw) >= ATC_TOO_BIG ||
        atc_mul(p->dh, p->w) >= ATC_TOO_BIG)
        return "the windows reach too far";

    const int64_t channels = blocks(p->c) * CONV_C0;
    const int64_t x = atc_mul(atc_mul(p->n, channels), atc_mul(p->h, p->w));
    const int64_t y = atc_mul(atc_mul(p->n, channels), atc_mul(p->oh, p->ow));
    const int64_t w = atc_mul(channels, atc_mul(p->kh, p->kw));
    if (!conv2d_holds(task, task->src + CONV_X, p->x_type, x) ||
        !weights_fit(task, CONV_W, p->weights, w) || !conv2d_holds(task, task->dst, p->y_type, y))
        return "an operand is too small or of another type";
    return conv2d_extras_problem(task, p->c, y, p->weights, p->residual_type);
}

static int64_t products(const void *params)
{
    const struct depthwise2d_params *p = params;
    return atc_mul(atc_mul(p->n, p->c), atc_mul(atc_mul(p->oh, p->ow), atc_mul(p->kh, p->kw)));
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct depthwise2d_params *p = params;
    const int64_t results = atc_mul(atc_mul(p->n, blocks(p->c)), atc_mul(p->oh, p->ow));
    return (struct kernel_cost){
        .items = p->n * blocks(p->c) * dw_chunks(p),
        .work = atc_mul(results, atc_mul(p->kh, p->kw)),
        .scratch = p->weights == WEIGHTS_F32 ? 0 : atc_mul(p->kh * p->kw, CONV_C0 * 4)};
}

DEFINE_FAMILY(depthwise2d, DEPTHWISE2D_FIELDS, .check = check, .cost = cost, .products = products,
              .inplace = 1u << CONV_RESIDUAL);

/* The weights of a block of channels. */
static const float *weights_of(const struct kernel_args *args, int64_t block, widen_fn *widen)
{
    const struct depthwise2d_params *p = args->params;
    const int64_t count = p->kh * p->kw * CONV_C0;
    if (p->weights == WEIGHTS_F32)
        return (const float *)args->src[CONV_W] + block * count;
    float scale[CONV_C0] = {0};
    const float *scales = args->src[CONV_SCALE];
    for (int64_t i = 0; scales != NULL && i < CONV_C0 && block * CONV_C0 + i < p->c; i++)
        scale[i] = scales[block * CONV_C0 + i];
    const uint16_t *all = args->src[CONV_W];
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, count);)
        widen((enum weight_type)p->weights, all + block * count + piece.begin,
              scales != NULL ? scale : NULL, (float *)args->scratch + piece.begin,
              piece.end - piece.begin);
    return args->scratch;
}

struct dw_item dw_item_at(const struct kernel_args *args, int64_t item, widen_fn *widen)
{
    const struct depthwise2d_params *p = args->params;
    const int64_t chunk = item % dw_chunks(p), plane = item / dw_chunks(p);
    const int64_t block = plane % blocks(p->c);
    const float *residual = args->src[CONV_RESIDUAL];
    const int64_t y_at = plane * p->oh * p->ow * CONV_C0;
    struct dw_item at = {
        .first_row = chunk * DW_ROWS,
        .end_row = min_i64((chunk + 1) * DW_ROWS, p->oh),
        .x = (const float *)args->src[CONV_X] +
             conv2d_floats(p->x_type, plane * p->h * p->w * CONV_C0),
        .w = weights_of(args, block, widen),
        .residual = residual ? residual + conv2d_floats(p->residual_type, y_at) : NULL,
        .y = (float *)args->dst[0] + conv2d_floats(p->y_type, y_at),
    };
    if (args->src[CONV_BIAS] != NULL) {
        const int64_t first = block * CONV_C0;
        const int64_t count = min_i64(CONV_C0, p->c - first);
        memcpy(at.bias, (const float *)args->src[CONV_BIAS] + first,
               (size_t)count * sizeof *at.bias);
    }
    return at;
}
