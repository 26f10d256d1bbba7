/* Allocations that fail, in programs that are linked with --wrap for malloc, calloc and strdup. */
#ifndef ATC_FUZZ_ALLOCATION_H
#define ATC_FUZZ_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

/* Lets the n-th allocation from now on fail; 0: none. */
void fuzz_fail_allocation(int64_t number);

/* Whether it has failed. */
bool fuzz_allocation_failed(void);

#endif
