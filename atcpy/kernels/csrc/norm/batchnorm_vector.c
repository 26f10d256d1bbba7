/* batchnorm on vectors. */
#include "norm/batchnorm.h"
#include "norm/row_sums_vector.h"

#include <math.h>

enum { BLOCK_RUN = 32 }; /* pixels that are summed in float before they are added in double */

/* y = (x − mean) · k + bias over n pixels that all have the same channel. */
static inline void shift_row(const float *x, int64_t n, float mean, float k, float bias, float *y)
{
    const vf m = vf_set1(mean), f = vf_set1(k), b = vf_set1(bias);
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store(y + i, vf_fma(vf_sub(vf_load(x + i), m), f, b));
    if (i < n)
        vf_store_n(y + i, vf_fma(vf_sub(vf_load_n(x + i, n - i, 0), m), f, b), n - i);
}

static inline void plain_plane(const struct kernel_args *args, int64_t item)
{
    const struct batchnorm_params *p = args->params;
    const int64_t c = item % p->c;
    const float *x = (const float *)args->src[BN_X] + item * p->pixels;
    float mean, var;
    if (args->src[BN_MEAN] != NULL) {
        mean = ((const float *)args->src[BN_MEAN])[c];
        var = ((const float *)args->src[BN_VAR])[c];
    } else {
        mean = (float)(row_sum(args, x, p->pixels) / (double)p->pixels);
        var = (float)(row_sum_of_squares(args, x, p->pixels, mean) / (double)p->pixels);
    }
    const float k = ((const float *)args->src[BN_SCALE])[c] / sqrtf(var + (float)p->epsilon);
    const float bias = ((const float *)args->src[BN_BIAS])[c];
    float *y = (float *)args->dst[0] + item * p->pixels;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->pixels);)
        shift_row(x + piece.begin, piece.end - piece.begin, mean, k, bias, y + piece.begin);
}

/* The mean of x − shift, or of its square, over pixels of a block; `x` points at the first lane. */
static inline __attribute__((always_inline)) vf mean_of_lanes(const struct kernel_args *args,
                                                              const float *x, vf shift,
                                                              bool squared)
{
    const struct batchnorm_params *p = args->params;
    struct atc_meter meter = {.args = args};
    vd total = vd_zero();
    for (int64_t begin = 0; begin < p->pixels && !atc_spend(&meter, BLOCK_RUN * VF);
         begin += BLOCK_RUN) {
        const int64_t end = min_i64(begin + BLOCK_RUN, p->pixels);
        vf acc[2] = {vf_set1(0), vf_set1(0)};
        for (int64_t i = begin; i < end; i++) {
            const vf d = vf_sub(vf_load(x + i * BATCHNORM_C0), shift);
            acc[i % 2] = squared ? vf_fma(d, d, acc[i % 2]) : vf_add(acc[i % 2], d);
        }
        total = vd_add(total, vf_add(acc[0], acc[1]));
    }
    return vd_quotient(total, (double)p->pixels);
}

/* VF lanes of a block whose first is channel c; `lanes` of them are real. */
static inline void block_part(const struct kernel_args *args, const float *x, int64_t c,
                              int64_t lanes, float *y)
{
    const struct batchnorm_params *p = args->params;
    const vf zero = vf_set1(0);
    vf mean, var;
    if (args->src[BN_MEAN] != NULL) {
        mean = vf_load_n((const float *)args->src[BN_MEAN] + c, lanes, 0);
        var = vf_load_n((const float *)args->src[BN_VAR] + c, lanes, 0);
    } else {
        mean = mean_of_lanes(args, x, zero, false);
        var = mean_of_lanes(args, x, mean, true);
    }
    const vf deviation = vf_sqrt(vf_add(var, vf_set1((float)p->epsilon)));
    const vf k = vf_div(vf_load_n((const float *)args->src[BN_SCALE] + c, lanes, 0), deviation);
    const vf bias = vf_load_n((const float *)args->src[BN_BIAS] + c, lanes, 0);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->pixels);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const vf d = vf_sub(vf_load(x + i * BATCHNORM_C0), mean);
            vf_store(y + i * BATCHNORM_C0, vf_fma(d, k, bias));
        }
}

static inline void batchnorm_items(const struct kernel_args *args)
{
    const struct batchnorm_params *p = args->params;
    const int64_t c1 = ceil_div(p->c, p->c0), plane = p->pixels * BATCHNORM_C0;
    for (int64_t item = args->begin; item < args->end; item++) {
        if (p->c0 == 1) {
            plain_plane(args, item);
            continue;
        }
        const float *x = (const float *)args->src[BN_X] + item * plane;
        float *y = (float *)args->dst[0] + item * plane;
        for (int64_t lane = 0; lane < BATCHNORM_C0; lane += VF) {
            const int64_t c = item % c1 * BATCHNORM_C0 + lane;
            if (c < p->c)
                block_part(args, x + lane, c, min_i64(VF, p->c - c), y + lane);
        }
    }
}

void FOR_ISA(batchnorm_f32)(const struct kernel_args *args)
{
    batchnorm_items(args);
}
