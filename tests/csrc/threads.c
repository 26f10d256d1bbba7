/* Callers that share worker threads: each item of each job is done exactly once, whoever helps, and
 * after a fork, also one in the midst of a job. Jobs that are open at the same time both get help,
 * and none where all cores have callers. Built with -fsanitize=thread.
 */
#include "core/clock.h"
#include "core/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CALLERS = 4,
    JOBS = 300,
    MAX_ITEMS = 257,
    THREADS = 4,
    CORES = 6, /* more than there are: what meets in practice now and then meets here always */
    MANY_CALLERS = 70, /* more than can have a job open */
};

#define LONG_NS INT64_C(120000000000)

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) != 0)
        exit(2);
    return thread;
}

/* --- each item once -------------------------------------------------------------------------- */

struct job {
    unsigned char done[MAX_ITEMS];
    int64_t scratch[THREADS];
    atomic_int bad_thread;
};

static void mark(void *context, struct atc_share *share)
{
    struct job *job = context;
    const int thread = share->thread;
    if (thread < 0 || thread >= THREADS) {
        atomic_store(&job->bad_thread, 1);
        return;
    }
    /* Plain memory: an item, or a number, that two threads have is a race, which the sanitizer
     * reports.
     */
    if (share->kept[0] != (uint64_t)job->scratch[thread])
        fail("a participant does not find what it kept");
    job->scratch[thread] += share->end - share->begin;
    share->kept[0] = (uint64_t)job->scratch[thread];
    for (int64_t i = share->begin; i < share->end; i++)
        job->done[i]++;
}

static void check(struct job *job, int64_t items)
{
    for (int64_t i = 0; i < MAX_ITEMS; i++) {
        if (job->done[i] != (i < items) || atomic_load(&job->bad_thread)) {
            fprintf(stderr, "item %lld of %lld was done %d times\n", (long long)i, (long long)items,
                    job->done[i]);
            exit(1);
        }
    }
}

static struct atc_workers *groups[2]; /* all CPUs, and one of them */

static void *call(void *seed)
{
    unsigned state = *(const unsigned *)seed;
    for (int j = 0; j < JOBS; j++) {
        struct job job = {.bad_thread = 0};
        state = state * 1664525u + 1013904223u;
        const int64_t items = (state >> 8) % (MAX_ITEMS + 1);
        struct atc_workers *workers = groups[(state >> 16) % 2];
        const bool is_run = (state >> 18) % 2, counts = is_run && atc_enter(workers);
        atc_parallel(workers, 1 + (int)(state >> 20) % THREADS, items, mark, NULL, &job);
        if (is_run)
            atc_leave(workers, counts);
        check(&job, items);
    }
    return NULL;
}

static void call_from(unsigned callers)
{
    pthread_t threads[MANY_CALLERS];
    unsigned seeds[MANY_CALLERS];
    for (unsigned i = 0; i < callers; i++) {
        seeds[i] = i;
        threads[i] = start(call, &seeds[i]);
    }
    for (unsigned i = 0; i < callers; i++)
        pthread_join(threads[i], NULL);
}

/* --- several jobs at the same time ----------------------------------------------------------- */

static atomic_int at_work;

/* Done when two callers and a worker of each are at it. */
static void meet(void *unused, struct atc_share *share)
{
    (void)unused, (void)share;
    const int64_t start_ns = atc_now_ns();
    atomic_fetch_add(&at_work, 1);
    while (atomic_load(&at_work) < 4) {
        if (atc_now_ns() - start_ns > LONG_NS)
            fail("two jobs at the same time did not both get a worker");
        sched_yield();
    }
}

static void *call_meeting(void *unused)
{
    (void)unused;
    const bool counts = atc_enter(groups[0]);
    atc_parallel(groups[0], 2, 2, meet, NULL, NULL);
    atc_leave(groups[0], counts);
    return NULL;
}

static void meet_in_two_jobs(void)
{
    atomic_store(&at_work, 0);
    const pthread_t threads[] = {start(call_meeting, NULL), start(call_meeting, NULL)};
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

/* --- forks ------------------------------------------------------------------------------------ */

static void wait_for_child(pid_t child, const char *what)
{
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail(what);
}

static void fork_and_call(void)
{
    const pid_t child = fork();
    if (child == 0) {
        unsigned seed = 99;
        call(&seed); /* starts few workers: ThreadSanitizer knows those that the parent has */
        _exit(0);
    }
    wait_for_child(child, "the pool does not work after a fork");
}

/* --- no worker where all cores have callers -------------------------------------------------- */

static atomic_int helped;
static pthread_barrier_t all_entered;

static void count_help(void *unused, struct atc_share *share)
{
    (void)unused;
    if (share->thread != 0)
        atomic_fetch_add(&helped, 1);
    sched_yield();
}

static void *call_beside_others(void *unused)
{
    (void)unused;
    const bool counts = atc_enter(groups[0]);
    pthread_barrier_wait(&all_entered);
    for (int j = 0; j < JOBS; j++)
        atc_parallel(groups[0], 2, 1 << 4, count_help, NULL, NULL);
    pthread_barrier_wait(&all_entered);
    atc_leave(groups[0], counts);
    return NULL;
}

static void call_from_all_cores(void)
{
    pthread_t threads[CORES];
    atomic_store(&helped, 0);
    pthread_barrier_init(&all_entered, NULL, CORES);
    for (int i = 0; i < CORES; i++)
        threads[i] = start(call_beside_others, NULL);
    for (int i = 0; i < CORES; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_entered);
    /* Each worker may have been about to join one job, of so many chunks, when the last came. */
    if (atomic_load(&helped) > CORES * 16)
        fail("workers took cores from callers");
}

/* --- a fork in the midst of a job ------------------------------------------------------------ */

enum fork_at { IN_ITEM, IN_WAIT };

static struct fork_job {
    struct job job;
    enum fork_at where;
    atomic_int began, is_forking, was_forked;
    pid_t child;
} fork_job;

static void fork_once(void *context)
{
    struct fork_job *job = context;
    if (!atomic_exchange(&job->is_forking, 1)) {
        job->child = fork();
        atomic_store(&job->was_forked, 1);
    }
}

/* Workers take long, so that the caller has to wait for them when it forks. */
static void mark_and_fork(void *context, struct atc_share *share)
{
    struct fork_job *job = context;
    const int thread = share->thread;
    const int64_t start_ns = atc_now_ns();
    atomic_fetch_add(&job->began, 1);
    while (thread == 0 && atomic_load(&job->began) < 2 && atc_now_ns() - start_ns < 100000000)
        sched_yield();
    while (thread != 0 && !atomic_load(&job->was_forked) && atc_now_ns() - start_ns < 2000000)
        sched_yield();
    mark(&job->job, share);
    if (thread == 0 && job->where == IN_ITEM)
        fork_once(job);
}

/* Whether the process forked in the midst of a job that has workers. */
static bool fork_in_job(enum fork_at where)
{
    enum { ITEMS = 64 };
    fork_job = (struct fork_job){.where = where, .child = -1};
    const bool counts = atc_enter(groups[0]);
    atc_parallel(groups[0], THREADS, ITEMS, mark_and_fork, fork_once, &fork_job);
    atc_leave(groups[0], counts);
    check(&fork_job.job, ITEMS);
    if (fork_job.child == 0)
        _exit(0);
    if (fork_job.child < 0)
        return false;
    wait_for_child(fork_job.child, "a fork in the midst of a job lost an item");
    return true;
}

/* --- CPUs ------------------------------------------------------------------------------------ */

static int only_cpu;
static atomic_int elsewhere, bound;

static void look_where(void *unused, struct atc_share *share)
{
    (void)unused;
    if (share->thread == 0) {
        sched_yield();
        return;
    }
    atomic_fetch_add(sched_getcpu() == only_cpu ? &bound : &elsewhere, 1);
}

static void look_for_bound_workers(void)
{
    const int64_t start_ns = atc_now_ns();
    while (atomic_load(&bound) < 300) {
        atc_parallel(groups[1], 2, 64, look_where, NULL, NULL);
        if (atc_now_ns() - start_ns > LONG_NS)
            fail("no worker came on the one CPU");
    }
    if (atomic_load(&elsewhere) != 0)
        fail("a worker ran on another CPU than it should");
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)only_cpu, &cpus);
    if (atc_workers_on(&cpus) != groups[1])
        fail("two groups have the same CPUs");
}

int main(void)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return 2;
    while (!CPU_ISSET((size_t)only_cpu, &cpus))
        only_cpu++;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)only_cpu, &cpus);
    groups[0] = atc_all_workers();
    groups[1] = atc_workers_on(&cpus);
    look_for_bound_workers();
    atc_set_cores(groups[0], CORES);
    atc_set_cores(groups[1], CORES);

    call_from(CALLERS);
    meet_in_two_jobs();
    call_from_all_cores();
    fork_and_call();
    int forks = 0;
    for (int i = 0; i < 20; i++)
        forks += fork_in_job(i % 2 ? IN_ITEM : IN_WAIT);
    if (forks == 0)
        fail("no fork came in the midst of a job");
    call_from(MANY_CALLERS);
    meet_in_two_jobs();
    printf("%d jobs of up to %d items from up to %d callers: each item once; %d forks in jobs\n",
           (CALLERS + 1 + MANY_CALLERS) * JOBS, MAX_ITEMS, MANY_CALLERS, forks);
    return 0;
}
