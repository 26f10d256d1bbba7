/* The worker threads of the process, which help callers with their jobs. pool.c explains how. */
#ifndef ATC_POOL_H
#define ATC_POOL_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Workers that run on the same CPUs. */
struct atc_workers;

/* Those that run wherever the process may. */
struct atc_workers *atc_all_workers(void);

/* Those that run on these CPUs only; the same for the same CPUs. NULL: there are too many groups.
 */
struct atc_workers *atc_workers_on(const cpu_set_t *cpus);

/* How many cores callers and workers may use altogether; at first, as many as they have CPUs. */
int atc_cores(const struct atc_workers *workers);
void atc_set_cores(struct atc_workers *workers, int cores);

/* A thread that is about to use a core for kernels says so, that workers leave it the core, until
 * it has finished. `atc_enter` returns whether it counts, which `atc_leave` has to be told.
 */
bool atc_enter(struct atc_workers *workers);
void atc_leave(struct atc_workers *workers, bool counts);

enum { POOL_KEPT = 2 };

/* What one call works on: items [begin, end), on behalf of participant `thread`, counted from 0,
 * the caller. What it notes in `kept`, zero at first, the next call of this participant finds
 * there.
 */
struct atc_share {
    int64_t begin, end;
    int thread;
    uint64_t kept[POOL_KEPT];
};

typedef void (*pool_fn)(void *context, struct atc_share *share);

/* Deals `items` out to the calling thread and to as many workers as find a free core, at most
 * `threads` altogether, and returns when all items are done. Any number of threads may call it at
 * the same time. While the caller waits for others it calls `idle` again and again, unless that is
 * NULL. Where items take equally long, no thread gets more than its share, but for a 32nd.
 */
void atc_parallel(struct atc_workers *workers, int threads, int64_t items, pool_fn fn,
                  void (*idle)(void *context), void *context);

#endif
