/* Checks the offsets that a package claims for the blocks of a symbolic plan. */
#ifndef ATC_PLACEMENT_H
#define ATC_PLACEMENT_H

#include <stdint.h>

#include "core/arena.h"

/* Where a block lies at all sizes that the plan serves, and the most bytes that it has there. */
struct atc_placement {
    int64_t offset, max_bytes;
};

/* Proves that offsets are multiples of 64, that lifetimes are ranges of tasks, and that no two
 * blocks that live at the same time overlap, in O(n log n). Returns the bytes of the arena, or -1
 * with the refusal.
 */
int64_t atc_placements_check(const struct atc_placement *placements,
                             const struct atc_lifetime *lifetimes, int64_t n, int64_t n_tasks,
                             struct atc_refusal *refusal);

#endif
