#include "core/placement.h"

#include <stdlib.h>

struct ranked {
    int64_t offset;
    uint32_t block;
};

/* A block begins or ends to live. */
struct event {
    uint32_t task, block;
    bool begins;
};

/* Live blocks by the rank of their offsets: node n + rank has the end of a block or 0, each node
 * above the larger of its two children's.
 */
struct ends {
    int64_t n;
    int64_t *largest;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void set_end(struct ends *ends, int64_t rank, int64_t end)
{
    int64_t node = ends->n + rank;
    ends->largest[node] = end;
    for (node /= 2; node > 0; node /= 2)
        ends->largest[node] = larger(ends->largest[2 * node], ends->largest[2 * node + 1]);
}

/* The largest end of the live blocks with ranks below `rank`. */
static int64_t largest_end(const struct ends *ends, int64_t rank)
{
    int64_t largest = 0;
    for (int64_t low = ends->n, high = ends->n + rank; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1)
            largest = larger(largest, ends->largest[low++]);
        if (high % 2 == 1)
            largest = larger(largest, ends->largest[--high]);
    }
    return largest;
}

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Ends come before begins: a block lives through its last task. */
static int compare_events(const void *left, const void *right)
{
    const struct event *a = left, *b = right;
    if (a->task != b->task)
        return a->task < b->task ? -1 : 1;
    return a->begins - b->begins;
}

/* The number of blocks whose offset is below `end`. */
static int64_t rank_of(const struct ranked *order, int64_t n, int64_t end)
{
    int64_t low = 0;
    while (low < n) {
        const int64_t middle = low + (n - low) / 2;
        if (order[middle].offset < end)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* The bytes of the arena, or -1: a block is malformed. */
static int64_t check_each(const struct atc_placement *placements,
                          const struct atc_lifetime *lifetimes, int64_t n, int64_t n_tasks,
                          struct atc_refusal *refusal)
{
    int64_t arena_bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct atc_placement *at = placements + i;
        const char *reason = NULL;
        if (lifetimes[i].first > lifetimes[i].last || lifetimes[i].last >= n_tasks)
            reason = "no such lifetime";
        else if (at->offset < 0 || at->offset % 64 != 0)
            reason = "its offset is not a multiple of 64";
        else if (at->max_bytes < 0 || atc_add(at->offset, at->max_bytes) >= ATC_TOO_BIG)
            reason = "it ends beyond 2^47 bytes";
        if (reason != NULL) {
            atc_refuse(refusal, -1, "block %lld: %s", (long long)i, reason);
            return -1;
        }
        arena_bytes = larger(arena_bytes, at->offset + at->max_bytes);
    }
    return arena_bytes;
}

/* Follows the tasks. A block that begins to live overlaps another exactly if one of those that
 * begin below its end ends above its offset.
 */
static bool are_apart(const struct atc_placement *placements, const struct event *events,
                      int64_t n_events, const struct ranked *order, const uint32_t *ranks,
                      struct ends *ends, struct atc_refusal *refusal)
{
    for (int64_t i = 0; i < n_events; i++) {
        const uint32_t block = events[i].block;
        const struct atc_placement *at = placements + block;
        const int64_t end = at->offset + at->max_bytes;
        if (events[i].begins && largest_end(ends, rank_of(order, ends->n, end)) > at->offset)
            return atc_refuse(refusal, -1, "block %u overlaps another that lives at the same time",
                              block);
        set_end(ends, ranks[block], events[i].begins ? end : 0);
    }
    return true;
}

int64_t atc_placements_check(const struct atc_placement *placements,
                             const struct atc_lifetime *lifetimes, int64_t n, int64_t n_tasks,
                             struct atc_refusal *refusal)
{
    const int64_t arena_bytes = check_each(placements, lifetimes, n, n_tasks, refusal);
    if (arena_bytes < 0)
        return -1;
    struct ranked *order = calloc((size_t)n + 1, sizeof *order);
    struct event *events = calloc((size_t)n * 2 + 1, sizeof *events);
    uint32_t *ranks = calloc((size_t)n + 1, sizeof *ranks);
    struct ends ends = {n, calloc((size_t)n * 2 + 1, sizeof *ends.largest)};
    bool ok = order != NULL && events != NULL && ranks != NULL && ends.largest != NULL;
    if (!ok) {
        atc_refuse_memory(refusal);
    } else {
        int64_t n_events = 0;
        for (uint32_t i = 0; i < n; i++) {
            order[i] = (struct ranked){placements[i].offset, i};
            if (placements[i].max_bytes == 0)
                continue; /* overlaps nothing */
            events[n_events++] = (struct event){lifetimes[i].first, i, true};
            events[n_events++] = (struct event){lifetimes[i].last + 1, i, false};
        }
        qsort(order, (size_t)n, sizeof *order, compare_ranked);
        qsort(events, (size_t)n_events, sizeof *events, compare_events);
        for (uint32_t rank = 0; rank < n; rank++)
            ranks[order[rank].block] = rank;
        ok = are_apart(placements, events, n_events, order, ranks, &ends, refusal);
    }
    free(order);
    free(events);
    free(ranks);
    free(ends.largest);
    return ok ? arena_bytes : -1;
}
