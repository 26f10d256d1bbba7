/* Memory of exact sizes, between pages that must not be touched. */
#ifndef ATC_FUZZ_MEMORY_H
#define ATC_FUZZ_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

enum { PAGE = 4096, REGION_SIZE = 1 << 20 };

/* Memory between two pages that must not be touched. */
struct region {
    uint8_t *begin, *end;
};

/* Where an operand lies in its region. */
struct block {
    uint8_t *at;
    int64_t bytes;
    struct region region;
};

struct region map_region(void);

/* Places a block at the end of its region, or at its beginning. What lies around it there has a
 * canary; and sanitized code must not touch it, after forbid_around.
 */
struct block place(struct region region, int64_t bytes, int64_t alignment, bool at_end);
void forbid_around(const struct block *block);

/* What a block holds is not to be read before it is written: Valgrind reports it. */
void forget_content(const struct block *block);

/* The first byte of a block that nobody wrote, or that was computed from such bytes, where Valgrind
 * watches; -1 if there is none. To be asked before is_intact.
 */
int64_t first_undefined(const struct block *block);

/* How many errors Valgrind has reported so far; 0 where it does not watch. */
int64_t reported_errors(void);

/* Whether nothing was written around a block; allows all again. */
bool is_intact(const struct block *block);

#endif
