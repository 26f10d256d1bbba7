/* Memory for runs: arenas that a run has left, for the next.
 *
 * The instances of all symbolic plans of a package share a pool, so that a size that was not met
 * before runs in pages that the system has already provided. An arena that is too small is replaced
 * by one that is a quarter larger or more: sizes that grow step by step allocate seldom. One that
 * was more than four times too large for 64 runs in a row is given back to the system.
 */
#ifndef ATC_ARENA_POOL_H
#define ATC_ARENA_POOL_H

#include <pthread.h>
#include <stdint.h>

/* Memory of one run. */
struct atc_arena {
    struct atc_arena *next;
    void *allocated;
    uint8_t *bytes; /* aligned to 64 */
    int64_t capacity;
};

struct atc_arena_pool {
    pthread_mutex_t lock; /* guards what follows */
    struct atc_arena *idle;
    int too_large; /* successive runs that needed less than a quarter of what they got */
};

void atc_arena_pool_init(struct atc_arena_pool *pool);
/* All arenas must have been returned. */
void atc_arena_pool_free(struct atc_arena_pool *pool);

/* An arena of so many bytes or more, clear or as a run of the pool left it; NULL: no memory. */
struct atc_arena *atc_arena_take(struct atc_arena_pool *pool, int64_t bytes);
void atc_arena_give(struct atc_arena_pool *pool, struct atc_arena *arena);

#endif
