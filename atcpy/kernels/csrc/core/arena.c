#include "core/arena.h"

#include <stdlib.h>
#include <string.h>

/* Pairs of interfering blocks that a plan may have: they bound the time of a placement. */
enum { MAX_PAIRS = 1 << 22 };

struct span {
    int64_t begin, end;
};

struct atc_blocks {
    int64_t n;
    uint32_t *by_first;   /* blocks by their first task */
    uint32_t *by_last;    /* and by their last */
    uint32_t *neighbours; /* of block i from starts[i] to starts[i + 1] */
    uint32_t *starts;
    struct atc_lifetime *lifetimes;
    /* scratch of a placement */
    int64_t *sizes, *other;
    uint32_t *order, *sorted;
    bool *placed;
    struct span *spans;
};

struct dated {
    uint32_t task, block;
};

static int compare_dated(const void *left, const void *right)
{
    const struct dated *a = left, *b = right;
    if (a->task != b->task)
        return a->task < b->task ? -1 : 1;
    return a->block < b->block ? -1 : 1;
}

static bool sort_blocks(struct atc_blocks *blocks)
{
    struct dated *dated = calloc((size_t)blocks->n + 1, sizeof *dated);
    if (dated == NULL)
        return false;
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < blocks->n; i++)
            dated[i] =
                (struct dated){k == 0 ? blocks->lifetimes[i].first : blocks->lifetimes[i].last, i};
        qsort(dated, (size_t)blocks->n, sizeof *dated, compare_dated);
        uint32_t *sorted = k == 0 ? blocks->by_first : blocks->by_last;
        for (int64_t i = 0; i < blocks->n; i++)
            sorted[i] = dated[i].block;
    }
    free(dated);
    return true;
}

/* Calls for each block, in the order of first tasks, those before it that still live. Counts the
 * neighbours of each block in starts[block + 1], or writes them where `write` is set, each block's
 * at starts[block], which moves on. Returns the number of pairs, or one too many.
 */
static int64_t sweep(struct atc_blocks *blocks, uint32_t *alive, bool write)
{
    int64_t n_alive = 0, pairs = 0;
    for (int64_t k = 0; k < blocks->n; k++) {
        const uint32_t block = blocks->by_first[k];
        int64_t kept = 0;
        for (int64_t j = 0; j < n_alive; j++)
            if (blocks->lifetimes[alive[j]].last >= blocks->lifetimes[block].first)
                alive[kept++] = alive[j];
        n_alive = kept;
        pairs += n_alive;
        if (pairs > MAX_PAIRS)
            return pairs;
        for (int64_t j = 0; j < n_alive; j++) {
            if (write) {
                blocks->neighbours[blocks->starts[block]++] = alive[j];
                blocks->neighbours[blocks->starts[alive[j]]++] = block;
            } else {
                blocks->starts[block + 1]++;
                blocks->starts[alive[j] + 1]++;
            }
        }
        alive[n_alive++] = block;
    }
    return pairs;
}

static bool find_neighbours(struct atc_blocks *blocks, struct atc_refusal *refusal)
{
    const int64_t pairs = sweep(blocks, blocks->order, false);
    if (pairs > MAX_PAIRS)
        return atc_refuse(refusal, -1, "too many blocks of memory live at the same time");
    blocks->neighbours = malloc(((size_t)pairs * 2 + 1) * sizeof *blocks->neighbours);
    if (blocks->neighbours == NULL)
        return atc_refuse_memory(refusal);
    for (int64_t i = 0; i < blocks->n; i++)
        blocks->starts[i + 1] += blocks->starts[i];
    sweep(blocks, blocks->order, true);
    /* Each start has moved to its end, which is the next one's start. */
    memmove(blocks->starts + 1, blocks->starts, (size_t)blocks->n * sizeof *blocks->starts);
    blocks->starts[0] = 0;
    return true;
}

struct atc_blocks *atc_blocks_new(const struct atc_lifetime *lifetimes, int64_t n, int64_t n_tasks,
                                  struct atc_refusal *refusal)
{
    for (int64_t i = 0; i < n; i++) {
        if (lifetimes[i].first > lifetimes[i].last || lifetimes[i].last >= n_tasks) {
            atc_refuse(refusal, -1, "block %lld: no such lifetime", (long long)i);
            return NULL;
        }
    }
    struct atc_blocks *blocks = calloc(1, sizeof *blocks);
    if (blocks == NULL) {
        atc_refuse_memory(refusal);
        return NULL;
    }
    const size_t room = (size_t)n + 1;
    blocks->n = n;
    blocks->by_first = calloc(room, sizeof *blocks->by_first);
    blocks->by_last = calloc(room, sizeof *blocks->by_last);
    blocks->starts = calloc(room, sizeof *blocks->starts);
    blocks->lifetimes = calloc(room, sizeof *blocks->lifetimes);
    blocks->sizes = calloc(room, sizeof *blocks->sizes);
    blocks->other = calloc(room, sizeof *blocks->other);
    blocks->order = calloc(room, sizeof *blocks->order);
    blocks->sorted = calloc(room, sizeof *blocks->sorted);
    blocks->placed = calloc(room, sizeof *blocks->placed);
    blocks->spans = calloc(room, sizeof *blocks->spans);
    bool ok = blocks->by_first && blocks->by_last && blocks->starts && blocks->lifetimes &&
              blocks->sizes && blocks->other && blocks->order && blocks->sorted && blocks->placed &&
              blocks->spans;
    if (ok) {
        memcpy(blocks->lifetimes, lifetimes, (size_t)n * sizeof *lifetimes);
        ok = sort_blocks(blocks);
    }
    if (!ok)
        atc_refuse_memory(refusal);
    if (!ok || !find_neighbours(blocks, refusal)) {
        atc_blocks_free(blocks);
        return NULL;
    }
    return blocks;
}

void atc_blocks_free(struct atc_blocks *blocks)
{
    free(blocks->by_first);
    free(blocks->by_last);
    free(blocks->neighbours);
    free(blocks->starts);
    free(blocks->lifetimes);
    free(blocks->sizes);
    free(blocks->other);
    free(blocks->order);
    free(blocks->sorted);
    free(blocks->placed);
    free(blocks->spans);
    free(blocks);
}

/* The most bytes that live at one task. */
static int64_t peak(const struct atc_blocks *blocks)
{
    int64_t alive = 0, most = 0, ended = 0;
    for (int64_t k = 0; k < blocks->n; k++) {
        const uint32_t block = blocks->by_first[k];
        for (; blocks->lifetimes[blocks->by_last[ended]].last < blocks->lifetimes[block].first;
             ended++)
            alive -= blocks->sizes[blocks->by_last[ended]];
        alive += blocks->sizes[block];
        most = alive > most ? alive : most;
    }
    return most;
}

/* Largest first, then by the first task: a stable radix sort by bytes of size / 64. */
static void sort_by_size(struct atc_blocks *blocks)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < blocks->n; i++)
        largest = blocks->sizes[i] > largest ? blocks->sizes[i] : largest;
    memcpy(blocks->order, blocks->by_first, (size_t)blocks->n * sizeof *blocks->order);
    for (int shift = 6; largest >> shift > 0; shift += 8) {
        uint32_t ends[257] = {0};
        for (int64_t i = 0; i < blocks->n; i++)
            ends[256 - (blocks->sizes[i] >> shift & 255)]++;
        for (int digit = 1; digit <= 256; digit++)
            ends[digit] += ends[digit - 1];
        for (int64_t i = 0; i < blocks->n; i++) {
            const uint32_t block = blocks->order[i];
            blocks->sorted[ends[255 - (blocks->sizes[block] >> shift & 255)]++] = block;
        }
        uint32_t *sorted = blocks->sorted;
        blocks->sorted = blocks->order;
        blocks->order = sorted;
    }
}

/* Shell sort: for the few neighbours that most blocks have, an insertion sort. */
static void sort_spans(struct span *spans, int64_t n)
{
    int64_t gap = 1;
    while (gap < n / 9)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3) {
        for (int64_t i = gap; i < n; i++) {
            const struct span span = spans[i];
            int64_t at = i;
            for (; at >= gap && spans[at - gap].begin > span.begin; at -= gap)
                spans[at] = spans[at - gap];
            spans[at] = span;
        }
    }
}

/* Puts each block, in the given order, into the lowest gap among its neighbours that is large
 * enough. Returns the highest end.
 */
static int64_t place(struct atc_blocks *blocks, const uint32_t *order, int64_t *offsets)
{
    int64_t top = 0;
    memset(blocks->placed, 0, (size_t)blocks->n * sizeof *blocks->placed);
    for (int64_t k = 0; k < blocks->n; k++) {
        const uint32_t block = order[k];
        int64_t n = 0;
        for (uint32_t j = blocks->starts[block]; j < blocks->starts[block + 1]; j++) {
            const uint32_t other = blocks->neighbours[j];
            if (blocks->placed[other])
                blocks->spans[n++] =
                    (struct span){offsets[other], offsets[other] + blocks->sizes[other]};
        }
        sort_spans(blocks->spans, n);
        int64_t offset = 0;
        for (int64_t j = 0; j < n && blocks->spans[j].begin - offset < blocks->sizes[block]; j++)
            offset = blocks->spans[j].end > offset ? blocks->spans[j].end : offset;
        offsets[block] = offset;
        blocks->placed[block] = blocks->sizes[block] > 0;
        top = offset + blocks->sizes[block] > top ? offset + blocks->sizes[block] : top;
    }
    return top;
}

int64_t atc_blocks_place(struct atc_blocks *blocks, const int64_t *sizes, int64_t *offsets)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < blocks->n; i++) {
        blocks->sizes[i] = (sizes[i] + 63) / 64 * 64;
        sum = atc_add(sum, blocks->sizes[i]);
    }
    if (sum >= ATC_TOO_BIG) /* every number below is at most this sum */
        return ATC_TOO_BIG;
    const int64_t least = peak(blocks);
    sort_by_size(blocks);
    const int64_t total = place(blocks, blocks->order, offsets);
    if (total <= least + least / 10)
        return total;
    for (uint32_t i = 0; i < blocks->n; i++)
        blocks->order[i] = i;
    const int64_t second = place(blocks, blocks->order, blocks->other);
    if (second >= total)
        return total;
    memcpy(offsets, blocks->other, (size_t)blocks->n * sizeof *offsets);
    return second;
}
