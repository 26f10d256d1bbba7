/* random: n numbers that are drawn.
 *
 *     uniform   a + (b − a) · u, with u in [0, 1)
 *     normal    of mean a and standard deviation b, by Box and Muller's method
 *
 * Elements 2i and 2i + 1 come from block i of the generator. With `seeded`, the draws follow from
 * the seed; without, each launch has others.
 */
#ifndef ATC_RANDOM_H
#define ATC_RANDOM_H

#include "core/kernel.h"

enum { RANDOM_UNIFORM, RANDOM_NORMAL };
extern const char *const random_kinds[];

#define RANDOM_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(n) ENUM(kind, random_kinds) F64(a) F64(b) I64(seeded) I64(seed)
DECLARE_PARAMS(random, RANDOM_FIELDS)

enum { PAIRS = 512 }; /* of an item */

#endif
