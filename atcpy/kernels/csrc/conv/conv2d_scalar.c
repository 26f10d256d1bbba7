/* conv2d by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "conv/conv2d.h"

/* Results one by one. The cut into items, and the copies of padded rows, are those of other ISAs.
 */
static void conv2d_micro_scalar(const struct conv2d_tile *t, int blocks, int width, int64_t c0)
{
    for (int block = 0; block < blocks; block++) {
        for (int i = 0; i < width; i++) {
            for (int m = 0; m < CONV_C0; m++) {
                const int64_t at = block * t->dst_stride + i * t->dst_step + m;
                float sum = t->first ? t->bias[block * CONV_C0 + m] : t->dst[at];
                if (t->first && t->residual != NULL)
                    sum += t->residual[block * t->residual_stride + i * t->residual_step + m];
                const float *weights = t->weights + block * t->weight_stride + m;
                for (int64_t c1 = 0; c1 < t->n_c1; c1++) {
                    const int64_t channels = c1 == t->n_c1 - 1 ? t->c_last : c0;
                    for (int64_t tap = 0; tap < t->n_taps; tap++) {
                        const float *in = t->in + c1 * t->c1_stride + t->taps[tap].in + i * c0;
                        const float *w = weights + c1 * t->weight_c1 +
                                         (c0 == 1 ? tap * CONV_C0 : t->taps[tap].weights);
                        for (int64_t c = 0; c < channels; c++)
                            sum += in[c] * w[c * CONV_C0];
                    }
                }
                t->dst[at] = t->last ? activate_f32(t->activation, sum, t->alpha, t->beta) : sum;
            }
        }
    }
}

static void blocked(const struct conv2d_tile *tile)
{
    CONV2D_FOR_TILES(t, tile, 1, CONV_C0, conv2d_micro_scalar(t, 1, 1, CONV_C0))
}

static void plain(const struct conv2d_tile *tile)
{
    CONV2D_FOR_TILES(t, tile, 1, 1, conv2d_micro_scalar(t, 1, 1, 1))
}

static void take_even(const float *from, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[2 * i];
}

static const conv2d_micro blocked_table[] = {blocked}, plain_table[] = {plain};
const struct conv2d_isa conv2d_isa_scalar = {
    .max_blocks = 1,
    .whole = {1, blocked_table, plain_table, NULL},
    .widen = widen_scalar,
    .vnni = 1,
    .round_bf16 = round_bf16_scalar,
    .narrow_bf16 = narrow_bf16_scalar,
    .take_even = take_even,
};

void conv2d_f32_scalar(const struct kernel_args *args)
{
    conv2d_drive(args, &conv2d_isa_scalar);
}

void conv2d_bf16_scalar(const struct kernel_args *args)
{
    conv2d_drive(args, &conv2d_isa_scalar);
}
