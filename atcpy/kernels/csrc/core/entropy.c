#include "core/entropy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t start;
static atomic_uint_fast64_t calls;

static void read_start(void)
{
    if (getrandom(&start, sizeof start, GRND_NONBLOCK) == sizeof start)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    start = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* A bijection of 64 bits, the finaliser of SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t atc_entropy(void)
{
    pthread_once(&once, read_start);
    /* A fork has the counter of its parent. */
    return mix(start + atomic_fetch_add(&calls, 1)) ^ mix((uint64_t)getpid());
}
