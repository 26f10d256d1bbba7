#include "core/pool.h"

#include "core/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    MAX_WORKERS = 255,
    SPIN_NS = 60000,       /* longer than the gap between two tasks, shorter than anyone notices */
    CHUNKS_PER_THREAD = 4, /* a late thread then costs a quarter of its share, not all of it */
};

/* A job is open while `state` holds its generation and free seats. A worker joins by taking a
 * seat; the dispatcher closes the job by taking all that are left, and then waits only for those
 * who joined. So nobody waits for a worker that sleeps, and no latecomer sees a stale job.
 */
static struct {
    pthread_mutex_t dispatch; /* held by the one caller that has the workers */
    pthread_mutex_t parking;
    pthread_cond_t wake;
    int sleepers; /* under `parking` */
    atomic_int workers;
    _Atomic uint64_t state; /* generation << 16 | free seats */
    atomic_int joined;      /* those who took a seat and have not finished */
    atomic_int next_thread;
    _Atomic int64_t next_item;
    int64_t items, chunk;
    pool_fn fn;
    void *context;
} pool = {.dispatch = PTHREAD_MUTEX_INITIALIZER,
          .parking = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER};

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Between two steps of a protocol that must hold however far apart they happen: the driver under
 * ThreadSanitizer is built with ATC_STRESS and lets the other threads run here.
 */
static inline void stress(void)
{
#ifdef ATC_STRESS
    sched_yield();
#endif
}

static void work(int thread)
{
    for (;;) {
        const int64_t begin = atomic_fetch_add(&pool.next_item, pool.chunk);
        if (begin >= pool.items)
            return;
        const int64_t end = begin + pool.chunk;
        pool.fn(pool.context, begin, end < pool.items ? end : pool.items, thread);
    }
}

/* Takes a seat in the open job, if there is one that this worker has not seen. */
static bool join(uint64_t *seen)
{
    uint64_t state = atomic_load(&pool.state);
    while (state >> 16 != *seen && (state & 0xffff) != 0) {
        /* Counted before the seat is taken: the dispatcher cannot miss a worker that got in. */
        atomic_fetch_add(&pool.joined, 1);
        stress();
        if (atomic_compare_exchange_strong(&pool.state, &state, state - 1)) {
            stress();
            *seen = state >> 16;
            return true;
        }
        atomic_fetch_sub(&pool.joined, 1);
    }
    if ((state & 0xffff) == 0)
        *seen = state >> 16;
    return false;
}

static void park(uint64_t seen)
{
    pthread_mutex_lock(&pool.parking);
    pool.sleepers++;
    while (atomic_load(&pool.state) >> 16 == seen)
        pthread_cond_wait(&pool.wake, &pool.parking);
    pool.sleepers--;
    pthread_mutex_unlock(&pool.parking);
}

static void *worker(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    for (;;) {
        const int64_t start = atc_now_ns();
        int spins = 0;
        bool joined = false;
        while (!(joined = join(&seen))) {
            relax();
            if (++spins % 64 == 0 && atc_now_ns() - start > SPIN_NS)
                break;
        }
        if (joined) {
            work(atomic_fetch_add(&pool.next_thread, 1));
            atomic_fetch_sub(&pool.joined, 1);
        } else {
            park(seen);
        }
    }
    return NULL;
}

/* The child of a fork has no workers; it starts its own when it needs them. */
static void forget_workers(void)
{
    pthread_mutex_init(&pool.dispatch, NULL);
    pthread_mutex_init(&pool.parking, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pool.sleepers = 0;
    atomic_store(&pool.workers, 0);
    atomic_store(&pool.joined, 0);
}

static void before_fork(void)
{
    pthread_mutex_lock(&pool.dispatch);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&pool.dispatch);
}

static void register_fork(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, forget_workers);
}

/* Called with `dispatch` held. */
static void start_workers(int count)
{
    pthread_once(&fork_once, register_fork);
    while (atomic_load(&pool.workers) < count) {
        pthread_t thread;
        pthread_attr_t detached;
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        const int error = pthread_create(&thread, &detached, worker, NULL);
        pthread_attr_destroy(&detached);
        if (error != 0)
            return; /* fewer threads are slower, not wrong */
        atomic_fetch_add(&pool.workers, 1);
    }
}

void atc_parallel(int threads, int64_t items, pool_fn fn, void (*idle)(void *context),
                  void *context)
{
    if (threads > items)
        threads = (int)items;
    if (threads > MAX_WORKERS + 1)
        threads = MAX_WORKERS + 1;
    if (threads <= 1 || pthread_mutex_trylock(&pool.dispatch) != 0) {
        if (items > 0)
            fn(context, 0, items, 0);
        return;
    }
    start_workers(threads - 1);
    pool.fn = fn;
    pool.context = context;
    pool.items = items;
    pool.chunk = items / ((int64_t)threads * CHUNKS_PER_THREAD);
    if (pool.chunk < 1)
        pool.chunk = 1;
    atomic_store(&pool.next_item, 0);
    atomic_store(&pool.next_thread, 1);
    const uint64_t generation = (atomic_load(&pool.state) >> 16) + 1;
    atomic_store(&pool.state, generation << 16 | (uint64_t)(threads - 1));

    pthread_mutex_lock(&pool.parking);
    if (pool.sleepers > 0)
        pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.parking);

    work(0);
    atomic_store(&pool.state, generation << 16);
    for (int spins = 1; atomic_load(&pool.joined) != 0; spins++) {
        relax();
        if (spins % 1024 == 0 && idle != NULL)
            idle(context);
    }
    pthread_mutex_unlock(&pool.dispatch);
}
