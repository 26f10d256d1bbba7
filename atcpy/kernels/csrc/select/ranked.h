/* Numbered keys in a heap: the best, or the worst, of them is at hand. The larger key is the better
 * one, of equal keys that with the lower number.
 */
#ifndef ATC_RANKED_H
#define ATC_RANKED_H

#include "core/pieces.h"

struct ranked {
    uint64_t key;
    int64_t at;
};

static inline bool is_better(struct ranked a, struct ranked b)
{
    return a.key > b.key || (a.key == b.key && a.at < b.at);
}

/* Lets heap[root] sink until those below it are worse (best_first), or better. */
static inline void sift_down(struct ranked *heap, int64_t n, int64_t root, bool best_first)
{
    const struct ranked sinking = heap[root];
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && is_better(heap[child + 1], heap[child]) == best_first)
            child++;
        if (is_better(heap[child], sinking) != best_first)
            break;
        heap[root] = heap[child];
    }
    heap[root] = sinking;
}

enum {
    RANKED_WORK = 32
}; /* of a sift, as a meter counts it: most of a large heap is in no cache */

static inline void make_heap(struct atc_meter *meter, struct ranked *heap, int64_t n,
                             bool best_first)
{
    for (int64_t root = n / 2 - 1; root >= 0 && !atc_spend(meter, RANKED_WORK); root--)
        sift_down(heap, n, root, best_first);
}

#endif
