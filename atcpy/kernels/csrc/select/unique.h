/* unique: the different slices along the middle dim, and where each of all is among them.
 *
 *     x        [outer, n, inner], of type `dtype`
 *     y        [outer, count, inner]: room for [outer, n, inner]
 *     indices  [count]: where each stands first; room for n, as for counts
 *     inverse  [n]: which of them each slice is
 *     counts   [count]: how often each is there
 *     count    how many there are, one int64
 *
 * The first `results` of y … counts are there, all but y of int64, then count. `sorted`, they are
 * in order of their elements, else in that of their first places. NaN are equal, and larger than
 * all.
 */
#ifndef ATC_UNIQUE_H
#define ATC_UNIQUE_H

#include "core/kernel.h"

#define UNIQUE_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(outer) I64(n) I64(inner) I64(sorted) I64(results) I64(dtype)
DECLARE_PARAMS(unique, UNIQUE_FIELDS)

enum { UNIQUE_Y, UNIQUE_INDICES, UNIQUE_INVERSE, UNIQUE_COUNTS, UNIQUE_RESULTS };

#endif
