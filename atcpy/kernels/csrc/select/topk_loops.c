/* topk, on keys of the elements, which the compiler makes vectors of. */
#include "select/ranked.h"
#include "select/sort_elements.h"
#include "select/topk.h"

/* The best of the keys that were offered, as a heap once there are k of them. */
struct selection {
    struct atc_meter *meter;
    struct ranked *best;
    int64_t k, count;
};

/* The least key that may be chosen. */
static inline uint64_t least_key(const struct selection *to)
{
    return to->count < to->k ? 0 : to->best[0].key;
}

/* Offers keys [begin, end), but for those below `least`. False if the call is to end. */
static bool offer(struct selection *to, const uint64_t *keys, int64_t begin, int64_t end,
                  uint64_t least)
{
    if (atc_spend(to->meter, end - begin))
        return false;
    for (int64_t i = begin; i < end; i++) {
        const bool is_full = to->count == to->k;
        if (keys[i] < least || (is_full && keys[i] <= to->best[0].key))
            continue;
        if (atc_spend(to->meter, RANKED_WORK))
            return false;
        to->best[is_full ? 0 : to->count++] = (struct ranked){keys[i], i};
        if (is_full)
            sift_down(to->best, to->k, 0, false);
        else if (to->count == to->k)
            make_heap(to->meter, to->best, to->k, false);
    }
    return true;
}

/* The largest key of each run of TOPK_RUN. */
static void find_largest(const struct kernel_args *args, const uint64_t *restrict keys, int64_t n,
                         uint64_t *restrict largest)
{
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n / TOPK_RUN);)
        for (int64_t run = piece.begin; run < piece.end; run++) {
            uint64_t most = 0;
            for (int64_t i = run * TOPK_RUN; i < (run + 1) * TOPK_RUN; i++)
                most = keys[i] > most ? keys[i] : most;
            largest[run] = most;
        }
}

/* The numbers of the k best, in order, in the memory of `best`; NULL if the call is to end. At
 * least k keys are not below the k-th of the runs' largest ones, which few of the others reach.
 */
static const int64_t *best_of(const struct kernel_args *args, const uint64_t *keys, int64_t n,
                              struct ranked *best, int64_t k)
{
    struct atc_meter meter = {.args = args};
    uint64_t *largest = (void *)(best + k), least = 0;
    const int64_t runs = n / TOPK_RUN;
    find_largest(args, keys, n, largest);
    if (atc_was_stopped(args))
        return NULL;
    struct selection to = {&meter, best, k, 0};
    for (struct atc_piece piece = {0}; runs >= k && atc_next_piece(args, &piece, runs);)
        if (!offer(&to, largest, piece.begin, piece.end, 0))
            return NULL;
    if (atc_was_stopped(args))
        return NULL;
    least = least_key(&to);
    to.count = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, runs);)
        for (int64_t run = piece.begin; run < piece.end; run++) {
            if (largest[run] < least || (to.count == k && largest[run] <= best[0].key))
                continue;
            if (!offer(&to, keys, run * TOPK_RUN, (run + 1) * TOPK_RUN, least))
                return NULL;
        }
    if (atc_was_stopped(args))
        return NULL;
    if (!offer(&to, keys, runs * TOPK_RUN, n, least))
        return NULL;
    for (int64_t left = k - 1; left > 0 && !atc_spend(&meter, RANKED_WORK); left--) {
        const struct ranked worst = best[0];
        best[0] = best[left];
        best[left] = worst;
        sift_down(best, left, 0, false);
    }
    if (atc_was_stopped(args))
        return NULL; /* not all of `best` is written */
    int64_t *order = &best->at;
    const int64_t step = sizeof *best / sizeof *order;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            order[i] = order[i * step];
    return atc_was_stopped(args) ? NULL : order;
}

void LOOPS_FOR_ISA(topk_any)(const struct kernel_args *args)
{
    const struct topk_params *p = args->params;
    const int64_t item = atc_item_bytes((int)p->dtype);
    const bool sorts = topk_sorts_all(p);
    /* The largest comes first in the heap, and last in order. */
    const uint64_t flip = (p->largest != 0) == sorts ? UINT64_MAX : 0;
    uint64_t *keys = args->scratch;
    struct ranked *best = (void *)(keys + p->n);
    int64_t *spare = (int64_t *)(keys + p->n), *indices = args->dst[TOPK_INDICES];
    for (int64_t lane = args->begin; lane < args->end; lane++) {
        const int64_t outer = lane / p->inner, inner = lane % p->inner;
        const uint8_t *x = (const uint8_t *)args->src[0] + (outer * p->n * p->inner + inner) * item;
        sort_keys(args, p->dtype, x, p->n, p->inner, flip, keys);
        if (atc_was_stopped(args))
            return;
        const int64_t *order = sorts ? sort_elements(args, keys, p->n, spare, spare + p->n)
                                     : best_of(args, keys, p->n, best, p->k);
        if (order == NULL)
            return;
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->k);)
            for (int64_t i = piece.begin; i < piece.end; i++) {
                const int64_t to = (outer * p->k + i) * p->inner + inner;
                indices[to] = order[i];
                memcpy((uint8_t *)args->dst[TOPK_VALUES] + to * item,
                       x + order[i] * p->inner * item, (size_t)item);
            }
    }
}
