/* topk: the k best of n along the middle dim, best first; of equal ones the first comes first.
 *
 *     x        [outer, n, inner]
 *     values   [outer, k, inner]
 *     places   [outer, k, inner], int64: where each stood
 *
 * NaN is the largest of all. `dtype` is that of x.
 */
#ifndef ATC_TOPK_H
#define ATC_TOPK_H

#include "core/kernel.h"

#define TOPK_FIELDS(I64, I64S, F64, ENUM)                                                          \
    I64(outer) I64(n) I64(inner) I64(k) I64(largest) I64(dtype)
DECLARE_PARAMS(topk, TOPK_FIELDS)

enum { TOPK_VALUES, TOPK_PLACES, TOPK_RESULTS };

#endif
