/* What operands hold: numbers at the edges of their type, and indices. */
#ifndef ATC_FUZZ_CONTENT_H
#define ATC_FUZZ_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

/* Fills an operand. Integers are mostly indices below `bound`; where it is tame they all are, and
 * no float is beyond a few.
 */
void fill_content(uint8_t *to, int64_t bytes, int dtype, bool is_tame, int64_t bound);

#endif
