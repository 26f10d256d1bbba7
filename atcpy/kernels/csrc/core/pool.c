/* Many callers, one pool.
 *
 * A caller splits a task into items and works on them itself; workers may help. It describes the
 * work in one of the job records of its group of workers, and opens it:
 *
 *     caller                                   worker
 *     takes a record, fills it in              spins, or sleeps until it is woken
 *     state = so many free seats               sees the record's bit in `open`
 *     sets the record's bit in `open`          takes a seat: one seat less, one joined more
 *     takes chunks of items, first of a part   takes chunks of items, first of another part,
 *     of its own, until none is left           until none is left
 *     closes: no seat is free any more         closes, too, and leaves: one joined less
 *     waits until nobody is joined
 *     gives the record back
 *
 * Free seats and joined workers are one word, `state`, and change together. This is what holds:
 *
 * 1. The fields of a job change only while no seat is free and nobody is joined. A worker reads
 *    them between taking a seat and leaving: they are those of one job, which is not done yet.
 * 2. A worker that was held up on its way to a job joins whichever is open in that record when it
 *    takes the seat, or none.
 * 3. A caller waits for those workers alone that have joined, and these are at work. One that
 *    sleeps, or is held up before it joins, delays nobody. So a caller needs no worker to finish:
 *    where none comes, or no record is free, it does all items itself.
 * 4. Threads in a job have different numbers, from 0, the caller, to below the job's `threads`: a
 *    seat is a number. What is computed does not depend on which thread computes it.
 * 5. `open` and the counters beside it are hints where to look, except for one thing. A worker that
 *    finds no open job sleeps only after it was counted in `sleepers`, and looks again then; a
 *    caller looks at `sleepers` after it has opened a job. One of the two sees the other.
 *
 * A group has so many cores. `active` counts the callers that are in a run (atc_enter), whether in
 * a job or not, and the workers that do not sleep. A worker wakes only if a core is left, and goes
 * to sleep after the job at hand when a caller came that needs its core. So two callers on two
 * cores get a core each, one alone gets both, and no caller shares a core with a worker for longer
 * than a task takes.
 *
 * A fork lets no worker join while it lasts, and waits until those that have joined left: in the
 * child, which has none, the forking thread may be in the midst of a job (a signal's handler may
 * fork, and `idle` calls handlers), and no item of it is lost with a worker.
 */
#include "core/pool.h"

#include "core/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    MAX_GROUPS = 64,
    MAX_JOBS = 64,       /* of a group at the same time: bits of a word */
    MAX_WORKERS = 255,   /* of a group: seats and joined workers are counted in 8 bits */
    SPIN_NS = 60000,     /* longer than the gap between two tasks, shorter than anyone notices */
    MAX_PARTS = 16,      /* of the items of a job; participants beyond share them */
    PART_OF_SHARE = 2,   /* a chunk is half of what each thread would get of what is left */
    LEAST_OF_SHARE = 32, /* and no less than such a part of what it gets of all */
};

/* A job's state: free seats, and from bit 8 on the joined workers. */
enum { SEAT = 1, SEATS = 0xff, JOINED = 0x100, ALL_JOINED = 0xff00 };

/* Neighbouring items, and which of them is the next. Aligned, as jobs, so that threads do not write
 * into each other's cache lines, which come in pairs.
 */
struct part {
    _Alignas(128) _Atomic int64_t next;
    int64_t end;
};

struct job {
    _Alignas(128) atomic_int state;
    int64_t least; /* the fewest items that a thread takes at a time */
    int threads, n_parts;
    pool_fn fn;
    void *context;
    struct part parts[MAX_PARTS];
};

struct atc_workers {
    struct job jobs[MAX_JOBS];
    /* Read by workers that spin. */
    _Alignas(128) _Atomic uint64_t open; /* jobs that may have free seats */
    atomic_int active;                   /* callers in a run, and workers that are awake */
    atomic_int awake;                    /* workers that do not sleep */
    atomic_int sleepers;                 /* written under `parking` */
    _Alignas(128) _Atomic uint64_t used; /* jobs that have a caller */
    /* Hardly ever written. */
    _Alignas(128) atomic_int cores;
    atomic_int workers; /* written under `starting` */
    bool is_bound;      /* to `cpus`, which the process may leave otherwise */
    cpu_set_t cpus;     /* none: unknown */
    pthread_mutex_t parking, starting;
    pthread_cond_t wake;
};

static struct atc_workers groups[MAX_GROUPS]; /* the first one has all CPUs */
static int n_groups;
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool is_forking; /* under `registry` */

/* What the calling thread has of a group, for the child of a fork. */
static _Thread_local struct {
    struct atc_workers *entered;
    struct atc_workers *caller_in;
    uint64_t used;
} own;

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

/* --- jobs ------------------------------------------------------------------------------------ */

/* Takes items of a part in chunks that become smaller: "guided self-scheduling" (Polychronopoulos
 * and Kuck, IEEE Transactions on Computers C-36, 1987). The first ones are large, since
 * neighbouring items may share what a kernel prepares; the last ones are small, so that threads end
 * together, even those that came late. False: none is left.
 */
static bool take_chunk(const struct job *job, struct part *part, struct atc_share *share)
{
    const int64_t sharing = (job->threads + job->n_parts - 1) / job->n_parts;
    share->begin = atomic_load_explicit(&part->next, memory_order_relaxed);
    do {
        const int64_t left = part->end - share->begin;
        if (left <= 0)
            return false;
        const int64_t guided = left / (PART_OF_SHARE * sharing);
        const int64_t chunk = guided > job->least ? guided : job->least;
        share->end = share->begin + (chunk < left ? chunk : left);
        stress();
    } while (!atomic_compare_exchange_weak(&part->next, &share->begin, share->end));
    return true;
}

/* Works on a part of its own, the same in each job of as many items and threads: what the thread
 * wrote in the last one is in its caches, while cores that are far apart take long to pass a cache
 * line on. Then it helps with the others.
 */
static void work(struct job *job, int thread)
{
    struct atc_share share = {.thread = thread};
    for (int i = 0; i < job->n_parts; i++) {
        struct part *part = job->parts + (thread + i) % job->n_parts;
        while (take_chunk(job, part, &share))
            job->fn(job->context, &share);
    }
}

/* Takes the free seats away: no item is left. For the caller and for those who have joined. */
static void close_seats(struct job *job)
{
    if ((atomic_load(&job->state) & SEATS) != 0)
        atomic_fetch_and(&job->state, ~SEATS);
    stress();
}

static void hide(struct atc_workers *group, const struct job *job)
{
    atomic_fetch_and(&group->open, ~(UINT64_C(1) << (job - group->jobs)));
}

/* Takes a seat, whose number it returns; 0 if none is free, or the process is about to fork. */
static int join(struct atc_workers *group, struct job *job)
{
    int state = atomic_load(&job->state);
    do {
        if ((state & SEATS) == 0)
            return 0;
        stress();
    } while (!atomic_compare_exchange_weak(&job->state, &state, state - SEAT + JOINED));
    stress();
    if (atomic_load(&is_forking)) {
        atomic_fetch_sub(&job->state, JOINED);
        return 0;
    }
    const int seats = state & SEATS;
    if (seats == 1 && atomic_load(&group->awake) >= job->threads)
        hide(group, job); /* others are awake, who need not look */
    return job->threads - seats;
}

static bool has_open_job(struct atc_workers *group)
{
    for (uint64_t open = atomic_load(&group->open); open != 0; open &= open - 1)
        if ((atomic_load(&group->jobs[__builtin_ctzll(open)].state) & SEATS) != 0)
            return true;
    return false;
}

/* Workers that are awake and have joined no job. */
static int count_idle(struct atc_workers *group)
{
    int idle = atomic_load(&group->awake);
    for (uint64_t used = atomic_load(&group->used); used != 0 && idle > 0; used &= used - 1)
        idle -= (atomic_load(&group->jobs[__builtin_ctzll(used)].state) & ALL_JOINED) / JOINED;
    return idle;
}

/* --- workers --------------------------------------------------------------------------------- */

static void *worker(void *group);

static bool start_worker(struct atc_workers *group)
{
    pthread_t thread;
    pthread_attr_t detached;
    atomic_fetch_add(&group->active, 1);
    atomic_fetch_add(&group->awake, 1);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const int error = pthread_create(&thread, &detached, worker, group);
    pthread_attr_destroy(&detached);
    if (error == 0) {
        atomic_fetch_add(&group->workers, 1);
        return true;
    }
    atomic_fetch_sub(&group->awake, 1);
    atomic_fetch_sub(&group->active, 1);
    return false; /* fewer threads are slower, not wrong */
}

/* Wakes workers for so many seats, as far as cores are left. */
static void wake(struct atc_workers *group, int seats)
{
    const int free_cores = atc_cores(group) - atomic_load(&group->active);
    int count = seats < free_cores ? seats : free_cores;
    if (count <= 0 || atomic_load(&group->sleepers) == 0)
        return;
    pthread_mutex_lock(&group->parking);
    if (count >= atomic_load(&group->sleepers)) {
        pthread_cond_broadcast(&group->wake);
    } else {
        while (count-- > 0)
            pthread_cond_signal(&group->wake);
    }
    pthread_mutex_unlock(&group->parking);
}

/* Finds workers for so many free seats: those that spin see them, others are woken, and where there
 * are too few, threads are started.
 */
static void call_workers(struct atc_workers *group, int seats)
{
    seats -= count_idle(group);
    if (seats <= 0)
        return;
    const int sleepers = atomic_load(&group->sleepers);
    if (sleepers > 0)
        wake(group, seats);
    if (seats <= sleepers || atomic_load(&group->workers) >= atc_cores(group) ||
        pthread_mutex_trylock(&group->starting) != 0)
        return;
    for (seats -= sleepers; seats > 0; seats--)
        if (atomic_load(&group->active) >= atc_cores(group) ||
            atomic_load(&group->workers) >= atc_cores(group) || !start_worker(group))
            break;
    pthread_mutex_unlock(&group->starting);
}

/* Joins a job and works until it is done; false if no job has a free seat. */
static bool help(struct atc_workers *group)
{
    for (uint64_t open = atomic_load(&group->open); open != 0; open &= open - 1) {
        struct job *job = group->jobs + __builtin_ctzll(open);
        const int thread = join(group, job);
        if (thread == 0)
            continue;
        if (has_open_job(group)) /* whose caller may have counted on this worker */
            call_workers(group, 1);
        work(job, thread);
        close_seats(job);
        atomic_fetch_sub(&job->state, JOINED);
        return true;
    }
    return false;
}

/* Helps until nothing was to do for a while, or the core is needed. */
static void serve(struct atc_workers *group)
{
    int64_t idle_since = atc_now_ns();
    for (unsigned spins = 1; atomic_load(&group->active) <= atc_cores(group); spins++) {
        if (help(group)) {
            idle_since = atc_now_ns();
            continue;
        }
        relax();
        if (spins % 64 == 0 && atc_now_ns() - idle_since > SPIN_NS)
            return;
    }
}

/* Counts a worker that is about to wake, if there is a job and a core for it. */
static bool may_wake(struct atc_workers *group)
{
    if (!has_open_job(group))
        return false;
    int active = atomic_load(&group->active);
    do {
        if (active >= atc_cores(group))
            return false;
    } while (!atomic_compare_exchange_weak(&group->active, &active, active + 1));
    atomic_fetch_add(&group->awake, 1);
    return true;
}

static void park(struct atc_workers *group)
{
    atomic_fetch_sub(&group->awake, 1);
    atomic_fetch_sub(&group->active, 1);
    pthread_mutex_lock(&group->parking);
    atomic_fetch_add(&group->sleepers, 1);
    stress();
    while (!may_wake(group))
        pthread_cond_wait(&group->wake, &group->parking);
    atomic_fetch_sub(&group->sleepers, 1);
    pthread_mutex_unlock(&group->parking);
}

/* Leaves the CPUs of the thread that started this one. False: it may run elsewhere. */
static bool move_to(const struct atc_workers *group)
{
    cpu_set_t present;
    if (CPU_COUNT(&group->cpus) == 0)
        return true;
    if (sched_getaffinity(0, sizeof present, &present) == 0 && CPU_EQUAL(&present, &group->cpus))
        return true;
    return sched_setaffinity(0, sizeof group->cpus, &group->cpus) == 0 || !group->is_bound;
}

/* Starts counted as active and awake. */
static void *worker(void *argument)
{
    struct atc_workers *group = argument;
    if (!move_to(group)) { /* the system took a CPU away: callers work themselves */
        atomic_fetch_sub(&group->awake, 1);
        atomic_fetch_sub(&group->active, 1);
        return NULL;
    }
    for (;;) {
        serve(group);
        park(group);
    }
    return NULL;
}

/* --- callers --------------------------------------------------------------------------------- */

bool atc_enter(struct atc_workers *group)
{
    /* Who calls from elsewhere takes none of these cores. */
    if (group->is_bound) {
        const int cpu = sched_getcpu();
        if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET((size_t)cpu, &group->cpus))
            return false;
    }
    own.entered = group;
    atomic_fetch_add(&group->active, 1);
    return true;
}

void atc_leave(struct atc_workers *group, bool counts)
{
    if (!counts)
        return;
    atomic_fetch_sub(&group->active, 1);
    own.entered = NULL;
    if (atomic_load(&group->open) != 0) /* others may have waited for the core */
        wake(group, 1);
}

/* How many workers may help now: those that spin, and others for the cores that are left. */
static int count_helpers(struct atc_workers *group)
{
    const int helpers = atc_cores(group) - atomic_load(&group->active) + count_idle(group);
    return helpers < MAX_WORKERS ? helpers : MAX_WORKERS;
}

/* A job record of its own for the calling thread; NULL if all are in use. */
static struct job *take_job(struct atc_workers *group)
{
    uint64_t used = atomic_load(&group->used), bit;
    do {
        bit = ~used & (used + 1);
        if (bit == 0)
            return NULL;
    } while (!atomic_compare_exchange_weak(&group->used, &used, used | bit));
    own.caller_in = group;
    own.used = bit;
    return group->jobs + __builtin_ctzll(bit);
}

static void give_job(struct atc_workers *group, const struct job *job)
{
    own.caller_in = NULL;
    atomic_fetch_and(&group->used, ~(UINT64_C(1) << (job - group->jobs)));
}

/* Cuts the items into a part for each thread. */
static void divide(struct job *job, int64_t items)
{
    job->n_parts = job->threads < MAX_PARTS ? job->threads : MAX_PARTS;
    const int64_t each = items / job->n_parts, longer = items % job->n_parts;
    int64_t begin = 0;
    for (int i = 0; i < job->n_parts; i++) {
        job->parts[i].end = begin + each + (i < longer);
        atomic_store_explicit(&job->parts[i].next, begin, memory_order_relaxed);
        begin = job->parts[i].end;
    }
}

/* The fewest items that a thread takes at a time. */
static int64_t least_chunk(int64_t items, int threads)
{
    const int64_t least = items / ((int64_t)threads * LEAST_OF_SHARE);
    return least > 1 ? least : 1;
}

void atc_parallel(struct atc_workers *group, int threads, int64_t items, pool_fn fn,
                  void (*idle)(void *context), void *context)
{
    if (threads > items)
        threads = (int)items;
    if (threads > 1) {
        const int helpers = count_helpers(group);
        threads = threads - 1 < helpers ? threads : helpers + 1;
    }
    struct job *job = threads > 1 ? take_job(group) : NULL;
    if (job == NULL) {
        if (items > 0)
            fn(context, &(struct atc_share){.end = items});
        return;
    }
    job->fn = fn;
    job->context = context;
    job->threads = threads;
    job->least = least_chunk(items, threads);
    divide(job, items);
    atomic_store_explicit(&job->state, (threads - 1) * SEAT, memory_order_release);
    stress();
    atomic_fetch_or(&group->open, UINT64_C(1) << (job - group->jobs));
    call_workers(group, atomic_load(&job->state) & SEATS);

    work(job, 0);
    close_seats(job);
    hide(group, job);
    for (unsigned spins = 1; (atomic_load(&job->state) & ALL_JOINED) != 0; spins++) {
        relax();
        if (spins % 1024 == 0 && idle != NULL)
            idle(context);
    }
    give_job(group, job);
}

/* --- forks ----------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&registry);
    atomic_store(&is_forking, true);
    stress();
    for (struct atc_workers *group = groups; group < groups + n_groups; group++)
        for (struct job *job = group->jobs; job < group->jobs + MAX_JOBS; job++)
            while ((atomic_load(&job->state) & ALL_JOINED) != 0)
                sched_yield();
}

static void after_fork_in_parent(void)
{
    atomic_store(&is_forking, false);
    pthread_mutex_unlock(&registry);
}

/* The child has the forking thread alone; it starts workers when it needs them. */
static void after_fork_in_child(void)
{
    for (struct atc_workers *group = groups; group < groups + n_groups; group++) {
        pthread_mutex_init(&group->parking, NULL);
        pthread_mutex_init(&group->starting, NULL);
        pthread_cond_init(&group->wake, NULL);
        atomic_store(&group->sleepers, 0);
        atomic_store(&group->awake, 0);
        atomic_store(&group->workers, 0);
        atomic_store(&group->active, own.entered == group);
        atomic_store(&group->open, 0);
        atomic_store(&group->used, own.caller_in == group ? own.used : 0);
        for (struct job *job = group->jobs; job < group->jobs + MAX_JOBS; job++)
            atomic_store(&job->state, 0);
    }
    pthread_mutex_init(&registry, NULL);
    atomic_store(&is_forking, false);
}

/* --- groups ---------------------------------------------------------------------------------- */

static void add_group(const cpu_set_t *cpus, bool is_bound)
{
    struct atc_workers *group = groups + n_groups;
    group->cpus = *cpus;
    group->is_bound = is_bound;
    const int count = CPU_COUNT(cpus);
    atc_set_cores(group, count > 0 ? count : MAX_WORKERS);
    pthread_mutex_init(&group->parking, NULL);
    pthread_mutex_init(&group->starting, NULL);
    pthread_cond_init(&group->wake, NULL);
    n_groups++;
}

static void add_first_group(void)
{
    /* Of the process: whoever calls first may be bound to few of them, which threads inherit. */
    cpu_set_t cpus;
    if (sched_getaffinity(getpid(), sizeof cpus, &cpus) != 0)
        CPU_ZERO(&cpus);
    add_group(&cpus, false);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int atc_cores(const struct atc_workers *group)
{
    return atomic_load_explicit(&group->cores, memory_order_relaxed);
}

void atc_set_cores(struct atc_workers *group, int cores)
{
    atomic_store(&group->cores, cores < MAX_WORKERS ? cores : MAX_WORKERS);
}

struct atc_workers *atc_all_workers(void)
{
    pthread_once(&once, add_first_group);
    return groups;
}

struct atc_workers *atc_workers_on(const cpu_set_t *cpus)
{
    (void)atc_all_workers();
    struct atc_workers *found = NULL;
    pthread_mutex_lock(&registry);
    for (struct atc_workers *group = groups + 1; group < groups + n_groups; group++)
        if (CPU_EQUAL(&group->cpus, cpus))
            found = group;
    if (found == NULL && n_groups < MAX_GROUPS) {
        found = groups + n_groups;
        add_group(cpus, true);
    }
    pthread_mutex_unlock(&registry);
    return found;
}
