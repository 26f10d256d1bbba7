/* The process's worker threads: they spin for a while after a job, then park. */
#ifndef ATC_POOL_H
#define ATC_POOL_H

#include <stdint.h>

/* Runs items [begin, end) on behalf of participant `thread`, counted from 0, the caller. */
typedef void (*pool_fn)(void *context, int64_t begin, int64_t end, int thread);

/* Deals `items` out to at most `threads` threads, the calling one included, and returns when all
 * are done. If another caller holds the workers, the calling thread does everything itself. While
 * it waits for others it calls `idle` again and again, unless that is NULL.
 */
void atc_parallel(int threads, int64_t items, pool_fn fn, void (*idle)(void *context),
                  void *context);

#endif
