/* What softmax and attention do with a row of scores, on vectors. */
#ifndef ATC_SOFTMAX_ROW_VECTOR_H
#define ATC_SOFTMAX_ROW_VECTOR_H

#include "core/pieces.h"
#include "simd/math_vector.h"

#include <math.h>

/* Of a row: so many exponentials are summed in float before they are added in double. */
enum { ROW_RUN = 32 * VF };

/* NaN is passed over: it reaches all results of the row by the sum of its exponentials. */
static inline float largest_of_row(const struct kernel_args *args, const float *src, int64_t n)
{
    vf best[2] = {vf_set1(-INFINITY), vf_set1(-INFINITY)};
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);) {
        int64_t i = piece.begin;
        for (; i + 2 * VF <= piece.end; i += 2 * VF)
            for (int a = 0; a < 2; a++)
                best[a] = vf_at_least(vf_load(src + i + a * VF), best[a]);
        for (; i < piece.end; i += VF)
            best[0] = vf_at_least(vf_load_n(src + i, min_i64(VF, n - i), -INFINITY), best[0]);
    }
    return vf_largest_lane(vf_max(best[0], best[1]));
}

/* e^x for x ≤ 0, or that times vf_exp_scale */
static inline vf exp_term(vf x, bool scaled)
{
    return scaled ? vf_exp_scaled_of_negative(x) : vf_exp_of_negative(x);
}

/* Σ e^(x − largest), each term kept in dst unless that is NULL; all of them times vf_exp_scale if
 * `scaled`.
 */
static inline __attribute__((always_inline)) double exp_row(const struct kernel_args *args,
                                                            const float *src, int64_t n,
                                                            float largest, float *dst, bool scaled)
{
    struct atc_meter meter = {.args = args};
    const vf shift = vf_set1(largest);
    vd total = vd_zero();
    for (int64_t begin = 0; begin < n && !atc_spend(&meter, ROW_RUN); begin += ROW_RUN) {
        const int64_t end = min_i64(begin + ROW_RUN, n);
        vf sum = vf_set1(0);
        int64_t i = begin;
        /* Two at a time: what one waits for is longer than the instructions that a CPU looks at. */
        for (; i + 2 * VF <= end; i += 2 * VF) {
            const vf e = exp_term(vf_sub(vf_load(src + i), shift), scaled);
            const vf f = exp_term(vf_sub(vf_load(src + i + VF), shift), scaled);
            sum = vf_add(vf_add(sum, e), f);
            if (dst != NULL) {
                vf_store(dst + i, e);
                vf_store(dst + i + VF, f);
            }
        }
        for (; i < end; i += VF) {
            const int64_t lanes = min_i64(VF, end - i);
            const vf e = exp_term(vf_sub(vf_load_n(src + i, lanes, largest), shift), scaled);
            sum = vf_add(sum, vf_keep_n(e, lanes, 0));
            if (dst != NULL)
                vf_store_n(dst + i, e, lanes);
        }
        total = vd_add(total, sum);
    }
    return vd_sum(total);
}

#endif
