/* softmax on vectors: along a row, or over neighbouring columns.
 */
#include "norm/softmax.h"
/* The rows need the names, too. */
#include "simd/short_rows_vector.h"
#include "simd/softmax_row_vector.h"

static inline void softmax_row(const struct kernel_args *args, const float *src, int64_t n,
                               float *dst)
{
    const float largest = largest_of_row(args, src, n);
    const vf scale = vf_set1((float)(1 / exp_row(args, src, n, largest, dst, true)));
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);) {
        int64_t i = piece.begin;
        for (; i + VF <= piece.end; i += VF)
            vf_store(dst + i, vf_mul(vf_load(dst + i), scale));
        if (i < piece.end)
            vf_store_n(dst + i, vf_mul(vf_load_n(dst + i, n - i, 0), scale), n - i);
    }
}

static inline void log_softmax_row(const struct kernel_args *args, const float *src, int64_t n,
                                   float *dst)
{
    const float largest = largest_of_row(args, src, n);
    const vf log_sum = vf_set1((float)log(exp_row(args, src, n, largest, NULL, false)));
    const vf shift = vf_set1(largest);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);) {
        int64_t i = piece.begin;
        for (; i + VF <= piece.end; i += VF)
            vf_store(dst + i, vf_sub(vf_sub(vf_load(src + i), shift), log_sum));
        if (i < piece.end) {
            const vf x = vf_load_n(src + i, n - i, 0);
            vf_store_n(dst + i, vf_sub(vf_sub(x, shift), log_sum), n - i);
        }
    }
}

/* `lanes` ≤ VF neighbouring columns, whose elements lie `inner` apart. */
static inline void softmax_columns(const struct kernel_args *args, const float *src, int64_t inner,
                                   int64_t lanes, float *dst)
{
    const struct softmax_params *p = args->params;
    vf largest = vf_set1(-INFINITY);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            largest = vf_max(largest, vf_load_n(src + i * inner, lanes, 0));
    vd total = vd_zero();
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const vf e = vf_exp_of_negative(vf_sub(vf_load_n(src + i * inner, lanes, 0), largest));
            total = vd_add(total, e);
            if (p->kind == SOFTMAX)
                vf_store_n(dst + i * inner, e, lanes);
        }
    vf sum = vd_quotient(total, 1);
    if (p->kind == SOFTMAX) {
        const vf scale = vf_div(vf_set1(1), sum);
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
            for (int64_t i = piece.begin; i < piece.end; i++) {
                float *at = dst + i * inner;
                vf_store_n(at, vf_mul(vf_load_n(at, lanes, 0), scale), lanes);
            }
        return;
    }
    float logs[VF];
    vf_store(logs, sum);
    for (int lane = 0; lane < VF; lane++)
        logs[lane] = logf(logs[lane]);
    sum = vf_load(logs);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const vf x = vf_load_n(src + i * inner, lanes, 0);
            vf_store_n(dst + i * inner, vf_sub(vf_sub(x, largest), sum), lanes);
        }
}

/* Up to VF short rows. */
static inline void softmax_short_rows(const struct kernel_args *args, const float *src,
                                      int64_t rows, float *dst)
{
    const struct softmax_params *p = args->params;
    float x[SHORT_ROW * VF], y[SHORT_ROW * VF];
    load_short_rows(src, p->n, rows, x);
    softmax_columns(args, x, VF, VF, y);
    store_short_rows(dst, p->n, rows, y);
}

void FOR_ISA(softmax_f32)(const struct kernel_args *args)
{
    const struct softmax_params *p = args->params;
    if (p->inner == 1 && p->n <= SHORT_ROW) {
        for (int64_t item = args->begin; item < args->end; item += VF)
            softmax_short_rows(args, (const float *)args->src[0] + item * p->n,
                               min_i64(VF, args->end - item), (float *)args->dst[0] + item * p->n);
        return;
    }
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct softmax_item at = softmax_item_at(p, item);
        const float *src = (const float *)args->src[0] + at.at;
        float *dst = (float *)args->dst[0] + at.at;
        if (p->inner > 1)
            for (int64_t c = 0; c < at.columns; c += VF)
                softmax_columns(args, src + c, p->inner, min_i64(VF, at.columns - c), dst + c);
        else if (p->kind == SOFTMAX)
            softmax_row(args, src, p->n, dst);
        else
            log_softmax_row(args, src, p->n, dst);
    }
}
