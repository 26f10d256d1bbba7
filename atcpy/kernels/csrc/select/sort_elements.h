/* Keys in order, by as many passes as they have bytes that differ. */
#ifndef ATC_SORT_ELEMENTS_H
#define ATC_SORT_ELEMENTS_H

#include "select/sort_key.h"

/* The numbers of n > 0 keys in ascending order of these, in one of the two arrays; of equal ones
 * the first leads. NULL if the call is to end. Byte after byte of the keys, the least significant
 * first; bytes that all keys share take no pass.
 */
static inline const int64_t *sort_elements(const struct kernel_args *args, const uint64_t *keys,
                                           int64_t n, int64_t *order, int64_t *spare)
{
    uint64_t differing = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            order[i] = i;
            differing |= keys[i] ^ keys[0];
        }
    for (int shift = 0; shift < 64; shift += 8) {
        if ((differing >> shift & 0xff) == 0)
            continue;
        int64_t begins[256] = {0}, begin = 0;
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
            for (int64_t i = piece.begin; i < piece.end; i++)
                begins[keys[i] >> shift & 0xff]++;
        for (int byte = 0; byte < 256; byte++) {
            const int64_t count = begins[byte];
            begins[byte] = begin;
            begin += count;
        }
        if (atc_was_stopped(args))
            return NULL; /* keys may be uncounted */
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
            for (int64_t i = piece.begin; i < piece.end; i++)
                spare[begins[keys[order[i]] >> shift & 0xff]++] = order[i];
        int64_t *const sorted = spare;
        spare = order;
        order = sorted;
    }
    return atc_was_stopped(args) ? NULL : order;
}

#endif
