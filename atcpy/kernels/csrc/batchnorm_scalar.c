/* batchnorm by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "batchnorm.h"

#include <math.h>

/* Mean and variance of a channel of a plane. */
static void moments(const float *x, int64_t pixels, int64_t c0, float *mean, float *var)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < pixels; i++)
        sum += x[i * c0];
    *mean = (float)(sum / (double)pixels);
    for (int64_t i = 0; i < pixels; i++) {
        const float d = x[i * c0] - *mean;
        squares += d * d;
    }
    *var = (float)(squares / (double)pixels);
}

void batchnorm_f32_scalar(const struct kernel_args *args)
{
    const struct batchnorm_params *p = args->params;
    const float *scale = args->src[BN_SCALE], *bias = args->src[BN_BIAS];
    const int64_t c1 = ceil_div(p->c, p->c0);
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t first = item % c1 * p->c0;
        for (int64_t lane = 0; lane < min_i64(p->c0, p->c - first); lane++) {
            const int64_t c = first + lane, at = item * p->pixels * p->c0 + lane;
            const float *x = (const float *)args->src[BN_X] + at;
            float *y = (float *)args->dst[0] + at;
            float mean, var;
            if (args->src[BN_MEAN] != NULL) {
                mean = ((const float *)args->src[BN_MEAN])[c];
                var = ((const float *)args->src[BN_VAR])[c];
            } else {
                moments(x, p->pixels, p->c0, &mean, &var);
            }
            const float k = scale[c] / sqrtf(var + (float)p->epsilon);
            for (int64_t i = 0; i < p->pixels; i++)
                y[i * p->c0] = (x[i * p->c0] - mean) * k + bias[c];
        }
    }
}
