/* Long items in pieces, between which a kernel asks whether the run is to end. Asking takes some
 * tens of nanoseconds and a piece tens of microseconds, or a few milliseconds where each step is
 * slow. Loops over less than a piece do not ask: between items the executor does.
 */
#ifndef ATC_PIECES_H
#define ATC_PIECES_H

#include <string.h>

#include "core/kernel.h"

enum { ATC_PIECE = 1 << 16 }; /* elements; whole vectors, and whole runs of them that are summed */

/* Steps [begin, end) of a loop. It starts with both at the first step. */
struct atc_piece {
    int64_t begin, end;
};

/* True if the run is to end: what a loop before should have written may be missing. */
static inline bool atc_was_stopped(const struct kernel_args *args)
{
    return args->stop != NULL && atc_is_stopped(args->stop);
}

/* Goes on to the next piece of the steps up to `last`; false after the last one, or if the call is
 * to end. The first piece does not ask, but is not begun either when a loop before was ended.
 */
static inline bool atc_next_piece(const struct kernel_args *args, struct atc_piece *piece,
                                  int64_t last)
{
    const bool is_first = piece->begin == piece->end;
    piece->begin = piece->end;
    if (piece->begin >= last || (is_first ? atc_was_stopped(args) : atc_stopped(args)))
        return false;
    piece->end = min_i64(piece->begin + ATC_PIECE, last);
    return true;
}

/* Adds up the work of loops whose steps differ, so that they ask once in ATC_PIECE of it. */
struct atc_meter {
    const struct kernel_args *args;
    int64_t done;
};

/* Counts `work` that is about to be done; true if the call is to end instead, and from then on, so
 * that all loops around end as well.
 */
static inline bool atc_spend(struct atc_meter *meter, int64_t work)
{
    meter->done += work;
    if (meter->done < ATC_PIECE)
        return false;
    if (atc_stopped(meter->args))
        return true;
    meter->done = 0;
    return false;
}

enum { ATC_COPIED_AT_ONCE = 1 << 22 }; /* bytes */

/* Copies memory that may be large. */
static inline void atc_copy(const struct kernel_args *args, void *to, const void *from,
                            int64_t bytes)
{
    uint8_t *dst = to;
    const uint8_t *src = from;
    for (; bytes > ATC_COPIED_AT_ONCE; bytes -= ATC_COPIED_AT_ONCE) {
        memcpy(dst, src, ATC_COPIED_AT_ONCE);
        if (atc_stopped(args))
            return;
        dst += ATC_COPIED_AT_ONCE;
        src += ATC_COPIED_AT_ONCE;
    }
    memcpy(dst, src, (size_t)bytes);
}

/* Sets memory that may be large to zero. */
static inline void atc_clear(const struct kernel_args *args, void *to, int64_t bytes)
{
    uint8_t *dst = to;
    for (; bytes > ATC_COPIED_AT_ONCE; bytes -= ATC_COPIED_AT_ONCE) {
        memset(dst, 0, ATC_COPIED_AT_ONCE);
        if (atc_stopped(args))
            return;
        dst += ATC_COPIED_AT_ONCE;
    }
    memset(dst, 0, (size_t)bytes);
}

#endif
