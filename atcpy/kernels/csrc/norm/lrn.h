/* lrn: x / (bias + alpha/size · Σ x² over neighbouring channels) ^ beta.
 *
 *     x, y  [n, c, pixels]; the sum is over channels c − ⌊(size−1)/2⌋ … c + ⌈(size−1)/2⌉
 */
#ifndef ATC_LRN_H
#define ATC_LRN_H

#include "core/kernel.h"

#define LRN_FIELDS(I64, I64S, F64, ENUM)                                                           \
    I64(n) I64(c) I64(pixels) I64(size) F64(alpha) F64(beta) F64(bias)
DECLARE_PARAMS(lrn, LRN_FIELDS)

/* The channels [first, last) that channel c is weighed by. */
static inline int64_t lrn_first(const struct lrn_params *p, int64_t c)
{
    const int64_t before = (p->size - 1) / 2;
    return c > before ? c - before : 0;
}

static inline int64_t lrn_last(const struct lrn_params *p, int64_t c)
{
    return min_i64(p->c, c + p->size / 2 + 1);
}

#endif
