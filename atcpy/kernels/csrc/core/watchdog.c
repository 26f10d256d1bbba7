#include "core/watchdog.h"

#include "core/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct watch {
    uint64_t number;
    int64_t ends_ns;
    int code;
    char text[512];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t current; /* the watch that counts; each start and stop takes the next number */

static void prepare(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void *wait_and_end(void *argument)
{
    struct watch *watch = argument;
    const struct timespec ends = {.tv_sec = watch->ends_ns / 1000000000,
                                  .tv_nsec = watch->ends_ns % 1000000000};
    int error = 0;
    pthread_mutex_lock(&lock);
    while (current == watch->number && error == 0)
        error = pthread_cond_timedwait(&changed, &lock, &ends);
    if (current == watch->number) {
        const ssize_t written = write(STDERR_FILENO, watch->text, strlen(watch->text));
        (void)written;
        _exit(watch->code);
    }
    pthread_mutex_unlock(&lock);
    free(watch);
    return NULL;
}

bool atc_watchdog_start(int64_t after_ns, const char *text, int code)
{
    pthread_once(&once, prepare);
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return false;
    watch->ends_ns = atc_now_ns() + after_ns;
    watch->code = code;
    snprintf(watch->text, sizeof watch->text, "%s", text);
    pthread_mutex_lock(&lock);
    watch->number = ++current;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_and_end, watch) != 0) {
        free(watch);
        return false;
    }
    pthread_detach(thread);
    return true;
}

void atc_watchdog_stop(void)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    current++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
