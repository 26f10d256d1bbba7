/* Callers that share one worker pool: each item of each job is done exactly once, also when the
 * workers are busy with another caller, and after a fork. Built with -fsanitize=thread.
 */
#include "core/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLERS = 4, JOBS = 300, MAX_ITEMS = 257, THREADS = 4 };

struct job {
    unsigned char done[MAX_ITEMS];
    atomic_int bad_thread;
};

static void mark(void *context, int64_t begin, int64_t end, int thread)
{
    struct job *job = context;
    if (thread < 0 || thread >= THREADS)
        atomic_store(&job->bad_thread, 1);
    /* Plain bytes: an item that two threads do is a race, which the sanitizer reports. */
    for (int64_t i = begin; i < end; i++)
        job->done[i]++;
}

static void *call(void *seed)
{
    unsigned state = *(const unsigned *)seed;
    for (int j = 0; j < JOBS; j++) {
        struct job job = {.bad_thread = 0};
        state = state * 1664525u + 1013904223u;
        const int64_t items = (state >> 8) % (MAX_ITEMS + 1);
        atc_parallel(1 + (int)(state >> 20) % THREADS, items, mark, NULL, &job);
        for (int64_t i = 0; i < MAX_ITEMS; i++) {
            if (job.done[i] != (i < items) || atomic_load(&job.bad_thread)) {
                fprintf(stderr, "item %lld of %lld was done %d times\n", (long long)i,
                        (long long)items, job.done[i]);
                exit(1);
            }
        }
    }
    return NULL;
}

static void call_from_all(void)
{
    pthread_t threads[CALLERS];
    unsigned seeds[CALLERS];
    for (unsigned i = 0; i < CALLERS; i++) {
        seeds[i] = i;
        if (pthread_create(&threads[i], NULL, call, &seeds[i]) != 0)
            exit(2);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    call_from_all();
    const pid_t child = fork();
    if (child == 0) {
        unsigned seed = 99;
        call(&seed);
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the pool does not work after a fork: status %d\n", status);
        return 1;
    }
    call_from_all();
    printf("%d jobs of up to %d items from %d callers: each item once\n", (2 * CALLERS + 1) * JOBS,
           MAX_ITEMS, CALLERS);
    return 0;
}
