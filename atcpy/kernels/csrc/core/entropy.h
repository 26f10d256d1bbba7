/* Numbers that nobody can repeat, for draws without a seed. */
#ifndef ATC_ENTROPY_H
#define ATC_ENTROPY_H

#include <stdint.h>

/* Another number in each call of any thread, and in other processes. */
uint64_t atc_entropy(void);

#endif
