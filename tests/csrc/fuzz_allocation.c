#include "fuzz_allocation.h"

#include <stddef.h>

static int64_t countdown;
static bool has_failed;

void fuzz_fail_allocation(int64_t number)
{
    countdown = number;
    has_failed = false;
}

bool fuzz_allocation_failed(void)
{
    return has_failed;
}

static bool fails(void)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    has_failed = true;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}
