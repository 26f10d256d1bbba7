/* How long the pool's worker takes to begin its part of a job, and the caller to notice that it has
 * ended: overhead.py compiles this together with core/pool.c and runs it.
 *
 *     pool_latency THREADS PAUSE_US      prints nanoseconds: begin p50 p99, end p50 p99
 *
 * The caller pauses between two jobs: not at all, so that workers still spin, or long enough for them
 * to sleep.
 */
#include "core/clock.h"
#include "core/pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { JOBS = 4000, WARM_UP = 100, PATIENCE_NS = 5000000 };

struct times {
    atomic_int started;
    int threads;
    _Atomic int64_t last_begin, last_end;
};

/* Each item waits for all others, so that each needs a thread of its own. */
static void run_item(void *context, struct atc_share *share)
{
    (void)share;
    struct times *times = context;
    const int64_t now = atc_now_ns();
    int64_t last = atomic_load(&times->last_begin);
    while (now > last && !atomic_compare_exchange_weak(&times->last_begin, &last, now))
        continue;
    atomic_fetch_add(&times->started, 1);
    while (atomic_load(&times->started) < times->threads && atc_now_ns() - now < PATIENCE_NS)
        continue;
    atomic_store(&times->last_end, atc_now_ns());
}

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void print_percentiles(int64_t *values)
{
    qsort(values, JOBS, sizeof *values, by_value);
    printf("%lld %lld\n", (long long)values[JOBS / 2], (long long)values[JOBS * 99 / 100]);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const int threads = atoi(argv[1]);
    const long pause_us = atol(argv[2]);
    static int64_t begins[JOBS], ends[JOBS];
    for (int i = -WARM_UP; i < JOBS; i++) {
        struct times times = {.threads = threads};
        if (pause_us > 0) {
            const struct timespec pause = {pause_us / 1000000, pause_us % 1000000 * 1000};
            nanosleep(&pause, NULL);
        }
        const int64_t start = atc_now_ns();
        atc_parallel(atc_all_workers(), threads, threads, run_item, NULL, &times);
        const int64_t done = atc_now_ns();
        if (i >= 0) {
            begins[i] = atomic_load(&times.last_begin) - start;
            ends[i] = done - atomic_load(&times.last_end);
        }
    }
    print_percentiles(begins);
    print_percentiles(ends);
    return 0;
}
