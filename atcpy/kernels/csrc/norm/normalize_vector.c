/* normalize on vectors. */
#include "norm/normalize.h"
#include "norm/row_sums_vector.h"

#include <math.h>

/* A run of a row under one entry of scale and bias. */
static inline void normalize_run(const float *x, int64_t n, float mean, float inverse, float scale,
                                 float bias, float *y)
{
    const vf m = vf_set1(mean), f = vf_set1(inverse), k = vf_set1(scale), b = vf_set1(bias);
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store(y + i, vf_fma(vf_mul(vf_sub(vf_load(x + i), m), f), k, b));
    if (i < n) {
        const vf d = vf_sub(vf_load_n(x + i, n - i, 0), m);
        vf_store_n(y + i, vf_fma(vf_mul(d, f), k, b), n - i);
    }
}

/* A row where each element has its own entry. */
static inline void normalize_row(const float *x, int64_t n, float mean, float inverse,
                                 const float *scale, const float *bias, float *y)
{
    const vf m = vf_set1(mean), f = vf_set1(inverse);
    for (int64_t i = 0; i < n; i += VF) {
        const int64_t lanes = min_i64(VF, n - i);
        const bool full = lanes == VF;
        vf v = full ? vf_load(x + i) : vf_load_n(x + i, lanes, 0);
        v = vf_mul(vf_sub(v, m), f);
        if (scale != NULL)
            v = vf_mul(v, full ? vf_load(scale + i) : vf_load_n(scale + i, lanes, 0));
        if (bias != NULL)
            v = vf_add(v, full ? vf_load(bias + i) : vf_load_n(bias + i, lanes, 0));
        if (full)
            vf_store(y + i, v);
        else
            vf_store_n(y + i, v, lanes);
    }
}

/* The row that is normalized, added up in a result where it is a sum; NULL after a fault. */
static inline const float *normalized_row(const struct kernel_args *args, int64_t row)
{
    const struct normalize_params *p = args->params;
    if (p->lines[0] == 0)
        return (const float *)args->src[NORM_X] + row * p->n;
    const float *terms[NORM_TERMS];
    int count = 0;
    for (int t = 0; t < NORM_TERMS; t++) {
        if (p->lines[t] == 0)
            continue;
        const int64_t line = norm_line(args, t, row);
        if (line < 0)
            return NULL;
        terms[count++] = (const float *)args->src[norm_term(t)] + line * p->n;
    }
    if (count == 1 && args->dst[NORM_SUM] == NULL)
        return terms[0];
    float *sum = args->dst[args->dst[NORM_SUM] != NULL ? NORM_SUM : NORM_Y];
    sum += row * p->n;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i += VF) {
            const int64_t lanes = min_i64(VF, p->n - i);
            const bool full = lanes == VF;
            vf v = full ? vf_load(terms[0] + i) : vf_load_n(terms[0] + i, lanes, 0);
            for (int t = 1; t < count; t++)
                v = vf_add(v, full ? vf_load(terms[t] + i) : vf_load_n(terms[t] + i, lanes, 0));
            if (full)
                vf_store(sum + i, v);
            else
                vf_store_n(sum + i, v, lanes);
        }
    return sum;
}

static inline void normalize_items(const struct kernel_args *args)
{
    const struct normalize_params *p = args->params;
    const float *scale = args->src[NORM_SCALE], *bias = args->src[NORM_BIAS];
    struct atc_meter meter = {.args = args};
    for (int64_t row = args->begin; row < args->end; row++) {
        const float *x = normalized_row(args, row);
        if (x == NULL)
            return;
        float *y = (float *)args->dst[0] + row * p->n;
        float mean = 0;
        if (p->kind == NORMALIZE_LAYER)
            mean = (float)(row_sum(args, x, p->n) / (double)p->n);
        const double squares = row_sum_of_squares(args, x, p->n, mean) / (double)p->n;
        const float inverse = (float)(1 / sqrt(squares + p->epsilon));
        const int64_t runs = p->n / p->run, entry = row % p->period * runs;
        if (p->run == 1) {
            for (struct atc_piece at = {0}; atc_next_piece(args, &at, p->n);)
                normalize_row(x + at.begin, at.end - at.begin, mean, inverse,
                              scale != NULL ? scale + entry + at.begin : NULL,
                              bias != NULL ? bias + entry + at.begin : NULL, y + at.begin);
            continue;
        }
        for (int64_t r = 0; r < runs && !atc_spend(&meter, p->run); r++)
            for (struct atc_piece at = {0}; atc_next_piece(args, &at, p->run);)
                normalize_run(x + r * p->run + at.begin, at.end - at.begin, mean, inverse,
                              scale != NULL ? scale[entry + r] : 1,
                              bias != NULL ? bias[entry + r] : 0, y + r * p->run + at.begin);
    }
}

void FOR_ISA(normalize_f32)(const struct kernel_args *args)
{
    normalize_items(args);
}
