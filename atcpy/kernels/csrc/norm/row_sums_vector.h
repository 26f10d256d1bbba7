/* Sums along a row of floats: in float over runs of it, then in double, in one fixed order.
 */
#ifndef ATC_ROW_SUMS_VECTOR_H
#define ATC_ROW_SUMS_VECTOR_H

#include "core/pieces.h"
#include "simd/vector.h"

enum { SUM_RUN = 16 * VF };

/* Σ x, or Σ (x − shift)². */
static inline __attribute__((always_inline)) double
sum_of_row(const struct kernel_args *args, const float *src, int64_t n, bool squared, float shift)
{
    struct atc_meter meter = {.args = args};
    const vf less = vf_set1(shift);
    vd total = vd_zero();
    for (int64_t begin = 0; begin < n && !atc_spend(&meter, SUM_RUN); begin += SUM_RUN) {
        const int64_t end = min_i64(begin + SUM_RUN, n);
        vf acc[4] = {vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0)};
        int64_t i = begin;
        for (; i + 4 * VF <= end; i += 4 * VF)
            for (int a = 0; a < 4; a++) {
                const vf x = vf_load(src + i + a * VF), d = vf_sub(x, less);
                acc[a] = squared ? vf_fma(d, d, acc[a]) : vf_add(acc[a], x);
            }
        for (; i < end; i += VF) {
            /* Lanes beyond the end add nothing: they are the shift itself, or 0. */
            const vf x = vf_load_n(src + i, min_i64(VF, end - i), squared ? shift : 0);
            const vf d = vf_sub(x, less);
            acc[0] = squared ? vf_fma(d, d, acc[0]) : vf_add(acc[0], x);
        }
        total = vd_add(total, vf_add(vf_add(acc[0], acc[1]), vf_add(acc[2], acc[3])));
    }
    return vd_sum(total);
}

static inline double row_sum(const struct kernel_args *args, const float *src, int64_t n)
{
    return sum_of_row(args, src, n, false, 0);
}

static inline double row_sum_of_squares(const struct kernel_args *args, const float *src, int64_t n,
                                        float shift)
{
    return sum_of_row(args, src, n, true, shift);
}

#endif
