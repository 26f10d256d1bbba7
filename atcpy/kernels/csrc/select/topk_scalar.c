/* topk, plainly: a heap of the best so far, its worst on top; then it is taken apart. */
#include "select/topk.h"

#include "select/ranked.h"
#include "select/sort_key.h"

static void best_of(const uint64_t *keys, int64_t n, struct ranked *best, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        best[i] = (struct ranked){keys[i], i};
    make_heap(best, k, false);
    for (int64_t i = k; i < n; i++) {
        if (keys[i] > best[0].key) {
            best[0] = (struct ranked){keys[i], i};
            sift_down(best, k, 0, false);
        }
    }
    for (int64_t left = k - 1; left > 0; left--) {
        const struct ranked worst = best[0];
        best[0] = best[left];
        best[left] = worst;
        sift_down(best, left, 0, false);
    }
}

void topk_any_scalar(const struct kernel_args *args)
{
    const struct topk_params *p = args->params;
    const int64_t item = atc_item_bytes((int)p->dtype);
    struct ranked *best = args->scratch;
    uint64_t *keys = (uint64_t *)(best + p->k);
    int64_t *places = args->dst[TOPK_PLACES];
    for (int64_t lane = args->begin; lane < args->end; lane++) {
        const int64_t outer = lane / p->inner, inner = lane % p->inner;
        const uint8_t *x = (const uint8_t *)args->src[0] + (outer * p->n * p->inner + inner) * item;
        sort_keys(p->dtype, x, p->n, p->inner, p->largest ? 0 : UINT64_MAX, keys);
        best_of(keys, p->n, best, p->k);
        for (int64_t i = 0; i < p->k; i++) {
            const int64_t to = (outer * p->k + i) * p->inner + inner;
            places[to] = best[i].at;
            memcpy((uint8_t *)args->dst[TOPK_VALUES] + to * item, x + best[i].at * p->inner * item,
                   (size_t)item);
        }
    }
}
