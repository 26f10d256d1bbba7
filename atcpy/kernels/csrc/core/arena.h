/* Placement of a symbolic plan's blocks in its arena, for each instance anew. */
#ifndef ATC_ARENA_H
#define ATC_ARENA_H

#include <stdint.h>

#include "core/plan.h"

/* A block's lifetime, tasks first to last inclusive. */
struct atc_lifetime {
    uint32_t first, last;
};

struct atc_blocks;

/* Finds which of the n blocks live at the same time. Returns NULL with the refusal: out of memory,
 * a lifetime that is no range of tasks, or too many pairs that interfere.
 */
struct atc_blocks *atc_blocks_new(const struct atc_lifetime *lifetimes, int64_t n, int64_t n_tasks,
                                  struct atc_refusal *refusal);
void atc_blocks_free(struct atc_blocks *blocks);

/* Gives each block, of `sizes[i]` >= 0 bytes, an offset that is a multiple of 64, so that no two
 * that interfere overlap. Returns the arena's bytes; from ATC_TOO_BIG on the offsets are not valid.
 */
int64_t atc_blocks_place(struct atc_blocks *blocks, const int64_t *sizes, int64_t *offsets);

#endif
