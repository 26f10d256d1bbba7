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

/* Offers n keys, of elements from `begin` on, but for those below `least`. False if the call is to
 * end.
 */
static bool offer(struct selection *to, const uint64_t *keys, int64_t begin, int64_t n,
                  uint64_t least)
{
    if (atc_spend(to->meter, n))
        return false;
    for (int64_t i = 0; i < n; i++) {
        const bool is_full = to->count == to->k;
        if (keys[i] < least || (is_full && keys[i] <= to->best[0].key))
            continue;
        if (atc_spend(to->meter, RANKED_WORK))
            return false;
        to->best[is_full ? 0 : to->count++] = (struct ranked){keys[i], begin + i};
        if (is_full)
            sift_down(to->best, to->k, 0, false);
        else if (to->count == to->k)
            make_heap(to->meter, to->best, to->k, false);
    }
    return true;
}

/* A lane: n elements that are `step` apart. */
struct lane {
    const uint8_t *x;
    int64_t dtype, n, step;
    uint64_t flip;        /* of keys */
    const uint64_t *keys; /* of all, or NULL: see topk_keys */
};

static const uint8_t *element(const struct lane *lane, int64_t i)
{
    return lane->x + i * lane->step * atc_item_bytes((int)lane->dtype);
}

static void lane_keys(const struct kernel_args *args, const struct lane *lane, int64_t i, int64_t n,
                      uint64_t *keys)
{
    sort_keys(args, lane->dtype, element(lane, i), n, lane->step, lane->flip, keys);
}

/* `rank` orders elements `v` as their keys do, in the narrowest type; `lowest` is below all others,
 * and `key` is the key of the one that ranks highest.
 */
#define LARGEST_CASE(number, type, rank_type, lowest, rank, key)                                   \
    case number:                                                                                   \
        while (atc_next_piece(args, &piece, runs))                                                 \
            for (int64_t run = piece.begin; run < piece.end; run++) {                              \
                rank_type highest = lowest;                                                        \
                for (int64_t i = run * TOPK_RUN; i < (run + 1) * TOPK_RUN; i++) {                  \
                    type v;                                                                        \
                    memcpy(&v, x + i * (int64_t)sizeof v, sizeof v);                               \
                    const rank_type other = rank;                                                  \
                    highest = other > highest ? other : highest;                                   \
                }                                                                                  \
                largest[run] = (key) ^ lane->flip;                                                 \
            }                                                                                      \
        return;

static uint64_t largest_of(const uint64_t *keys)
{
    uint64_t largest = 0;
    for (int64_t i = 0; i < TOPK_RUN; i++)
        largest = keys[i] > largest ? keys[i] : largest;
    return largest;
}

/* The largest key of each run of TOPK_RUN. */
static void find_largest(const struct kernel_args *args, const struct lane *lane,
                         uint64_t *restrict largest)
{
    struct atc_piece piece = {0};
    struct atc_meter meter = {.args = args};
    const uint8_t *x = lane->x;
    const int64_t runs = lane->n / TOPK_RUN, flip = (int64_t)lane->flip;
    if (lane->keys != NULL) {
        for (int64_t run = 0; run < runs; run++)
            largest[run] = largest_of(lane->keys + run * TOPK_RUN);
        return;
    }
    switch (lane->step == 1 ? lane->dtype : DTYPE_ANY) {
        LARGEST_CASE(DTYPE_F32, float, uint32_t, 0, (uint32_t)key_of_f32(v) ^ (uint32_t)flip,
                     highest ^ (uint32_t)flip)
        LARGEST_CASE(DTYPE_I32, int32_t, int32_t, INT32_MIN, v ^ (int32_t)flip,
                     key_of_i64(highest ^ (int32_t)flip))
        LARGEST_CASE(DTYPE_I64, int64_t, int64_t, INT64_MIN, v ^ flip, key_of_i64(highest ^ flip))
    default:
        for (int64_t run = 0; run < runs && !atc_spend(&meter, TOPK_RUN); run++) {
            uint64_t keys[TOPK_RUN];
            lane_keys(args, lane, run * TOPK_RUN, TOPK_RUN, keys);
            largest[run] = largest_of(keys);
        }
    }
}

/* Offers elements [begin, end) of a lane, at most TOPK_RUN. */
static bool offer_run(struct selection *to, const struct lane *lane, int64_t begin, int64_t end,
                      uint64_t least)
{
    uint64_t keys[TOPK_RUN];
    if (lane->keys != NULL)
        return offer(to, lane->keys + begin, begin, end - begin, least);
    lane_keys(to->meter->args, lane, begin, end - begin, keys);
    return !atc_was_stopped(to->meter->args) && offer(to, keys, begin, end - begin, least);
}

/* The numbers of the k best, in order, in the memory of `best`; NULL if the call is to end. At
 * least k keys are not below the k-th of the runs' largest ones, which few of the others reach.
 */
static const int64_t *best_of(const struct kernel_args *args, const struct lane *lane,
                              struct ranked *best, int64_t k)
{
    struct atc_meter meter = {.args = args};
    uint64_t *largest = (void *)(best + k), least = 0;
    const int64_t runs = lane->n / TOPK_RUN;
    find_largest(args, lane, largest);
    if (atc_was_stopped(args))
        return NULL;
    struct selection to = {&meter, best, k, 0};
    for (struct atc_piece piece = {0}; runs >= k && atc_next_piece(args, &piece, runs);)
        if (!offer(&to, largest + piece.begin, piece.begin, piece.end - piece.begin, 0))
            return NULL;
    if (atc_was_stopped(args))
        return NULL;
    least = least_key(&to);
    to.count = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, runs);)
        for (int64_t run = piece.begin; run < piece.end; run++) {
            if (largest[run] < least || (to.count == k && largest[run] <= best[0].key))
                continue;
            if (!offer_run(&to, lane, run * TOPK_RUN, (run + 1) * TOPK_RUN, least))
                return NULL;
        }
    if (atc_was_stopped(args) || !offer_run(&to, lane, runs * TOPK_RUN, lane->n, least))
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

/* Lanes that lie side by side, of which few elements each are chosen: the best so far, in order, as
 * signed keys, which more instruction sets compare.
 */
enum { BESIDE = 32, MIN_BESIDE = 8, MAX_CHOSEN = 8 };

struct beside {
    int64_t keys[MAX_CHOSEN][BESIDE], at[MAX_CHOSEN][BESIDE];
};

/* Puts element `at` of each lane behind those of `count` that are no worse, and what it displaces
 * after them, where there is room. Each is compared with all, without branches.
 */
static inline __attribute__((always_inline)) void
add_side_by_side(struct beside *best, const int64_t *keys, int64_t at, int count, bool has_room)
{
    for (int i = 0; i < BESIDE; i++) {
        const int64_t key = keys[i];
        int64_t moved_key = key, moved_at = at;
#pragma GCC unroll 8
        for (int j = 0; j < count; j++) {
            const int64_t here_key = best->keys[j][i], here_at = best->at[j][i];
            const bool is_better = key > here_key;
            best->keys[j][i] = is_better ? moved_key : here_key;
            best->at[j][i] = is_better ? moved_at : here_at;
            moved_key = is_better ? here_key : moved_key;
            moved_at = is_better ? here_at : moved_at;
        }
        if (has_room) {
            best->keys[count][i] = moved_key;
            best->at[count][i] = moved_at;
        }
    }
}

#define ADD_CASE(k)                                                                                \
    case k:                                                                                        \
        add_side_by_side(best, keys, at, k, false);                                                \
        break;

static void add_to_full(struct beside *best, const int64_t *keys, int64_t at, int64_t k)
{
    switch (k) {
        ADD_CASE(1)
        ADD_CASE(2)
        ADD_CASE(3)
        ADD_CASE(4)
        ADD_CASE(5)
        ADD_CASE(6)
        ADD_CASE(7)
        ADD_CASE(8)
    }
}

/* The results of m ≤ BESIDE lanes, from `inner` on; false if the call is to end. */
static bool run_side_by_side(struct atc_meter *meter, int64_t outer, int64_t inner, int64_t m,
                             uint64_t flip)
{
    const struct topk_params *p = meter->args->params;
    const int64_t item = atc_item_bytes((int)p->dtype), row = p->inner * item;
    const uint8_t *x = (const uint8_t *)meter->args->src[0] + outer * p->n * row + inner * item;
    struct beside best;
    uint64_t keys[BESIDE] = {0};
    for (int64_t at = 0; at < p->n; at++) {
        if (atc_spend(meter, m * (p->k + 1)))
            return false;
        sort_keys(meter->args, p->dtype, x + at * row, m, 1, flip, keys);
        int64_t ordered[BESIDE];
        for (int i = 0; i < BESIDE; i++)
            ordered[i] = (int64_t)(keys[i] ^ UINT64_C(1) << 63);
        if (at < p->k)
            add_side_by_side(&best, ordered, at, (int)at, true);
        else
            add_to_full(&best, ordered, at, p->k);
    }
    if (atc_was_stopped(meter->args))
        return false;
    for (int64_t j = 0; j < p->k; j++) {
        const int64_t to = (outer * p->k + j) * p->inner + inner;
        for (int64_t i = 0; i < m; i++) {
            ((int64_t *)meter->args->dst[TOPK_INDICES])[to + i] = best.at[j][i];
            memcpy((uint8_t *)meter->args->dst[TOPK_VALUES] + (to + i) * item,
                   x + best.at[j][i] * row + i * item, (size_t)item);
        }
    }
    return true;
}

void LOOPS_FOR_ISA(topk_any)(const struct kernel_args *args)
{
    const struct topk_params *p = args->params;
    const int64_t item = atc_item_bytes((int)p->dtype);
    const bool sorts = topk_sorts_all(p);
    /* The largest comes first in the heap, and last in order. */
    const uint64_t flip = (p->largest != 0) == sorts ? UINT64_MAX : 0;
    uint64_t *keys = args->scratch;
    const int64_t n_keys = topk_keys(p);
    struct ranked *best = (void *)(keys + n_keys);
    int64_t *spare = (int64_t *)(keys + n_keys), *indices = args->dst[TOPK_INDICES];
    struct atc_meter meter = {.args = args};
    for (int64_t at = args->begin, lanes = 1; at < args->end; at += lanes) {
        const int64_t outer = at / p->inner, inner = at % p->inner;
        const int64_t beside = min_i64(min_i64(args->end - at, p->inner - inner), BESIDE);
        lanes = !sorts && p->k <= MAX_CHOSEN && beside >= MIN_BESIDE ? beside : 1;
        if (lanes > 1) {
            if (!run_side_by_side(&meter, outer, inner, lanes, flip))
                return;
            continue;
        }
        const uint8_t *x = (const uint8_t *)args->src[0] + (outer * p->n * p->inner + inner) * item;
        const struct lane lane = {x, p->dtype, p->n, p->inner, flip, n_keys > 0 ? keys : NULL};
        lane_keys(args, &lane, 0, n_keys, keys);
        if (atc_was_stopped(args))
            return;
        const int64_t *order = sorts ? sort_elements(args, keys, p->n, spare, spare + p->n)
                                     : best_of(args, &lane, best, p->k);
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
