/* Loaded before the C library (LD_PRELOAD): lets the n-th allocation of one shared library fail.
 *
 *     fail_allocation_of(first, last, n)  of calls from the code between two addresses; n = 0: none
 *     allocations_seen()                  how many there were since
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static uintptr_t code_first, code_last;
static atomic_long seen, failing;

void fail_allocation_of(uintptr_t first, uintptr_t last, long number)
{
    code_first = first;
    code_last = last;
    atomic_store(&seen, 0);
    atomic_store(&failing, number);
}

long allocations_seen(void)
{
    return atomic_load(&seen);
}

static int fails(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    return at >= code_first && at < code_last &&
           atomic_fetch_add(&seen, 1) + 1 == atomic_load(&failing);
}

void *malloc(size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(block, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    if (fails(__builtin_return_address(0)))
        return ENOMEM;
    *block = __libc_memalign(alignment, size);
    return *block == NULL ? ENOMEM : 0;
}
