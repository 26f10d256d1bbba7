/* topk: the k best of n along the middle dim, best first; of equal ones the first comes first.
 *
 *     x        [outer, n, inner]
 *     values   [outer, k, inner]
 *     indices  [outer, k, inner], int64: where each stood
 *
 * NaN is the largest of all. `dtype` is that of x.
 *
 * A heap of the best so far, its worst on top, is taken apart at the end; runs of elements whose
 * largest is not good enough are passed over. Where much of a lane is chosen, all of it is sorted.
 * Where little of lanes that lie side by side is chosen, their best so far are kept in order.
 */
#ifndef ATC_TOPK_H
#define ATC_TOPK_H

#include "core/kernel.h"

#define TOPK_FIELDS(I64, I64S, F64, ENUM)                                                          \
    I64(outer) I64(n) I64(inner) I64(k) I64(largest) I64(dtype)
DECLARE_PARAMS(topk, TOPK_FIELDS)

enum { TOPK_VALUES, TOPK_INDICES, TOPK_RESULTS };
enum { TOPK_RUN = 32 };

/* Whether a lane is sorted, which takes passes over some hundred counters. */
static inline bool topk_sorts_all(const struct topk_params *p)
{
    return p->n >= 128 && p->k > p->n / 4;
}

/* How many keys of a lane are computed once: of a long one, few are looked at twice. */
static inline int64_t topk_keys(const struct topk_params *p)
{
    enum { TOPK_KEYS = 4096 };
    return topk_sorts_all(p) || p->n <= TOPK_KEYS ? p->n : 0;
}

#endif
