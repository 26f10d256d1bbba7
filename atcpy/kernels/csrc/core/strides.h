/* Elements that dims and strides reach. */
#ifndef ATC_STRIDES_H
#define ATC_STRIDES_H

#include <stdbool.h>
#include <string.h>

#include "core/checked.h"

enum { STRIDES_MAX_RANK = 9 };

/* True if runs of `own` elements, one for each index below the `rank` dims, do not overlap: taken
 * by growing stride, each dim steps over all that the dims before it reach. Strides are not
 * negative.
 */
static inline bool atc_runs_apart(const int64_t *dims, const int64_t *strides, int rank,
                                  int64_t own)
{
    bool is_taken[STRIDES_MAX_RANK] = {false};
    int64_t below = own;
    for (int step = 0; step < rank; step++) {
        int smallest = -1;
        for (int i = 0; i < rank; i++)
            if (!is_taken[i] && dims[i] > 1 && (smallest < 0 || strides[i] < strides[smallest]))
                smallest = i;
        if (smallest < 0)
            return true;
        if (strides[smallest] < below)
            return false;
        below = atc_add(below, atc_mul(dims[smallest] - 1, strides[smallest]));
        is_taken[smallest] = true;
    }
    return true;
}

#endif
