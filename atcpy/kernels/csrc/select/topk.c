/* topk: the k best of n along the middle dim, best first; of equal ones the first comes first.
 *
 *     x        [outer, n, inner]
 *     values   [outer, k, inner]
 *     indices  [outer, k, inner], int64: where each stood
 *
 * NaN is the largest of all. `dtype` is that of x.
 *
 * A heap of the best so far, its worst on top, is taken apart at the end.
 */
#include "select/ranked.h"
#include "select/sort_key.h"

#define TOPK_FIELDS(I64, I64S, F64, ENUM)                                                          \
    I64(outer) I64(n) I64(inner) I64(k) I64(largest) I64(dtype)
DECLARE_PARAMS(topk, TOPK_FIELDS)

enum { TOPK_VALUES, TOPK_INDICES, TOPK_RESULTS };

static const char *check(const struct task_view *task)
{
    const struct topk_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != TOPK_RESULTS)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->n, p->inner, p->k) || p->k > p->n)
        return "a size is out of range";
    if (p->largest != 0 && p->largest != 1)
        return "largest is neither 0 nor 1";
    if (p->dtype != task->src->dtype || !atc_is_number(task->src->dtype) ||
        task->dst[TOPK_VALUES].dtype != task->src->dtype)
        return "elements of this type have no order";
    const int64_t lanes = atc_mul(p->outer, p->inner), item = atc_item_bytes(task->src->dtype);
    if (!atc_holds(task, task->src, DTYPE_ANY, atc_mul(lanes, p->n), item) ||
        !atc_holds(task, task->dst + TOPK_VALUES, DTYPE_ANY, atc_mul(lanes, p->k), item) ||
        !atc_holds(task, task->dst + TOPK_INDICES, DTYPE_I64, atc_mul(lanes, p->k), 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static int64_t log2_above(int64_t n)
{
    int64_t log = 1;
    while (n >> log != 0)
        log++;
    return log;
}

/* An item is one lane. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct topk_params *p = params;
    if (p->k == 0 || p->outer == 0 || p->inner == 0)
        return (struct kernel_cost){0};
    return (struct kernel_cost){
        .items = p->outer * p->inner,
        .work = atc_mul(atc_mul(p->outer, p->inner), atc_mul(p->n, 2 + log2_above(p->k))),
        .scratch = atc_add(atc_mul(p->k, sizeof(struct ranked)), atc_mul(p->n, sizeof(uint64_t)))};
}

DEFINE_FAMILY(topk, TOPK_FIELDS, .check = check, .cost = cost);

static void best_of(const struct kernel_args *args, const uint64_t *keys, int64_t n,
                    struct ranked *best, int64_t k)
{
    struct atc_meter meter = {.args = args};
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            best[i] = (struct ranked){keys[i], i};
    make_heap(&meter, best, k, false);
    for (struct atc_piece piece = {k, k}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            if (keys[i] <= best[0].key)
                continue;
            if (atc_spend(&meter, RANKED_WORK))
                return;
            best[0] = (struct ranked){keys[i], i};
            sift_down(best, k, 0, false);
        }
    for (int64_t left = k - 1; left > 0 && !atc_spend(&meter, RANKED_WORK); left--) {
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
    int64_t *indices = args->dst[TOPK_INDICES];
    for (int64_t lane = args->begin; lane < args->end; lane++) {
        const int64_t outer = lane / p->inner, inner = lane % p->inner;
        const uint8_t *x = (const uint8_t *)args->src[0] + (outer * p->n * p->inner + inner) * item;
        sort_keys(args, p->dtype, x, p->n, p->inner, p->largest ? 0 : UINT64_MAX, keys);
        best_of(args, keys, p->n, best, p->k);
        if (atc_was_stopped(args))
            return; /* not all of `best` is written */
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->k);)
            for (int64_t i = piece.begin; i < piece.end; i++) {
                const int64_t to = (outer * p->k + i) * p->inner + inner;
                indices[to] = best[i].at;
                memcpy((uint8_t *)args->dst[TOPK_VALUES] + to * item,
                       x + best[i].at * p->inner * item, (size_t)item);
            }
    }
}
