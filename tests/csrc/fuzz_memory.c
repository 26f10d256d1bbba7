#include "fuzz_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
#ifdef ATC_VALGRIND
#include <valgrind/memcheck.h>
#endif

enum { CANARY_BYTES = 64, CANARY = 0xc9 };

struct region map_region(void)
{
    uint8_t *at = mmap(NULL, REGION_SIZE + 2 * PAGE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || mprotect(at + PAGE, REGION_SIZE, PROT_READ | PROT_WRITE) != 0) {
        perror("mmap");
        exit(2);
    }
    return (struct region){at + PAGE, at + PAGE + REGION_SIZE};
}

static void allow(const struct region *region, bool is_allowed)
{
#ifdef __SANITIZE_ADDRESS__
    if (is_allowed)
        __asan_unpoison_memory_region(region->begin, (size_t)(region->end - region->begin));
    else
        __asan_poison_memory_region(region->begin, (size_t)(region->end - region->begin));
#elif defined ATC_VALGRIND
    if (is_allowed)
        VALGRIND_MAKE_MEM_DEFINED(region->begin, region->end - region->begin);
    else
        VALGRIND_MAKE_MEM_NOACCESS(region->begin, region->end - region->begin);
#else
    (void)region;
    (void)is_allowed;
#endif
}

/* The bytes around a block that are checked for writes. */
static struct region before_block(const struct block *block)
{
    uint8_t *begin = block->at - CANARY_BYTES;
    return (struct region){begin > block->region.begin ? begin : block->region.begin, block->at};
}

static struct region behind_block(const struct block *block)
{
    uint8_t *begin = block->at + block->bytes, *end = begin + CANARY_BYTES;
    return (struct region){begin, end < block->region.end ? end : block->region.end};
}

static void fill_canary(struct region region)
{
    memset(region.begin, CANARY, (size_t)(region.end - region.begin));
}

static bool is_canary(struct region region)
{
    for (const uint8_t *at = region.begin; at < region.end; at++)
        if (*at != CANARY)
            return false;
    return true;
}

struct block place(struct region region, int64_t bytes, int64_t alignment, bool at_end)
{
    struct block block = {region.begin, bytes, region};
    if (at_end)
        block.at = region.end - (bytes + alignment - 1) / alignment * alignment;
    allow(&region, true);
    fill_canary(before_block(&block));
    fill_canary(behind_block(&block));
    return block;
}

void forbid_around(const struct block *block)
{
    const struct region before = before_block(block), behind = behind_block(block);
    allow(&before, false);
    allow(&behind, false);
}

void forget_content(const struct block *block)
{
#ifdef ATC_VALGRIND
    VALGRIND_MAKE_MEM_UNDEFINED(block->at, block->bytes);
#else
    (void)block;
#endif
}

int64_t first_undefined(const struct block *block)
{
#ifdef ATC_VALGRIND
    uint8_t validity[256];
    for (int64_t at = 0; at < block->bytes; at += (int64_t)sizeof validity) {
        const int64_t left = block->bytes - at;
        const int64_t n = left < (int64_t)sizeof validity ? left : (int64_t)sizeof validity;
        VALGRIND_GET_VBITS(block->at + at, validity, n);
        for (int64_t i = 0; i < n; i++)
            if (validity[i] != 0)
                return at + i;
    }
#else
    (void)block;
#endif
    return -1;
}

int64_t reported_errors(void)
{
#ifdef ATC_VALGRIND
    return VALGRIND_COUNT_ERRORS;
#else
    return 0;
#endif
}

bool is_intact(const struct block *block)
{
    allow(&block->region, true);
    return is_canary(before_block(block)) && is_canary(behind_block(block));
}
