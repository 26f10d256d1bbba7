#include "core/arena_pool.h"
#include "core/checked.h"

#include <stdbool.h>
#include <stdlib.h>

enum { TOO_LARGE = 4, MAX_TOO_LARGE_RUNS = 64 };

static void arena_free(struct atc_arena *arena)
{
    if (arena != NULL)
        free(arena->allocated);
    free(arena);
}

/* Cleared memory: a package that reads what none of its tasks wrote must not get what the process
 * kept there. The allocator takes fresh pages, which are clear, for arenas of some size.
 */
static struct atc_arena *arena_new(int64_t bytes)
{
    enum { ALIGNMENT = 64 };
    struct atc_arena *arena = calloc(1, sizeof *arena);
    if (arena == NULL || bytes >= ATC_TOO_BIG ||
        (arena->allocated = calloc((size_t)bytes + ALIGNMENT, 1)) == NULL) {
        free(arena);
        return NULL;
    }
    const uintptr_t misaligned = (uintptr_t)arena->allocated % ALIGNMENT;
    arena->bytes = (uint8_t *)arena->allocated + (ALIGNMENT - misaligned) % ALIGNMENT;
    arena->capacity = bytes;
    return arena;
}

void atc_arena_pool_init(struct atc_arena_pool *pool)
{
    *pool = (struct atc_arena_pool){.idle = NULL};
    pthread_mutex_init(&pool->lock, NULL);
}

void atc_arena_pool_free(struct atc_arena_pool *pool)
{
    while (pool->idle != NULL) {
        struct atc_arena *arena = pool->idle;
        pool->idle = arena->next;
        arena_free(arena);
    }
    pthread_mutex_destroy(&pool->lock);
}

/* Whether `arena` serves a run better than `best`: the smallest that is large enough, or else the
 * largest.
 */
static bool serves_better(const struct atc_arena *arena, const struct atc_arena *best,
                          int64_t bytes)
{
    if (best->capacity >= bytes)
        return arena->capacity >= bytes && arena->capacity < best->capacity;
    return arena->capacity > best->capacity;
}

/* Removes the idle arena that serves best; NULL: there is none. */
static struct atc_arena *take_idle(struct atc_arena_pool *pool, int64_t bytes)
{
    struct atc_arena **best = &pool->idle;
    for (struct atc_arena **link = best; *link != NULL; link = &(*link)->next)
        if (serves_better(*link, *best, bytes))
            best = link;
    struct atc_arena *arena = *best;
    if (arena != NULL)
        *best = arena->next;
    return arena;
}

struct atc_arena *atc_arena_take(struct atc_arena_pool *pool, int64_t bytes)
{
    bytes += bytes == 0;
    pthread_mutex_lock(&pool->lock);
    struct atc_arena *arena = take_idle(pool, bytes);
    const bool too_large = arena != NULL && arena->capacity / TOO_LARGE > bytes;
    pool->too_large = too_large ? pool->too_large + 1 : 0;
    const bool give_back = pool->too_large > MAX_TOO_LARGE_RUNS;
    pool->too_large = give_back ? 0 : pool->too_large;
    pthread_mutex_unlock(&pool->lock);
    if (arena != NULL && arena->capacity >= bytes && !give_back)
        return arena;
    const int64_t grown = arena == NULL || give_back ? 0 : arena->capacity / 4 * 5;
    arena_free(arena);
    arena = grown > bytes ? arena_new(grown) : NULL;
    return arena != NULL ? arena : arena_new(bytes);
}

void atc_arena_give(struct atc_arena_pool *pool, struct atc_arena *arena)
{
    pthread_mutex_lock(&pool->lock);
    arena->next = pool->idle;
    pool->idle = arena;
    pthread_mutex_unlock(&pool->lock);
}
