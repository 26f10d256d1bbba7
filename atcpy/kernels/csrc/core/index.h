/* Indices from operands: int32 or int64, negative ones counted from the end. */
#ifndef ATC_INDEX_H
#define ATC_INDEX_H

#include <string.h>

#include "core/kernel.h"

/* True if a slot's type is that of indices of `item` bytes. */
static inline bool atc_is_index(const struct atc_slot *slot, int64_t item)
{
    return (item == 4 && slot->dtype == DTYPE_I32) || (item == 8 && slot->dtype == DTYPE_I64);
}

/* Number `at` of indices of `item` bytes. */
static inline int64_t atc_read_index(const void *indices, int64_t at, int64_t item)
{
    int64_t index;
    if (item == 4) {
        int32_t narrow;
        memcpy(&narrow, (const uint8_t *)indices + at * 4, sizeof narrow);
        return narrow;
    }
    memcpy(&index, (const uint8_t *)indices + at * 8, sizeof index);
    return index;
}

/* The index in [0, size) that an index operand names, or -1 after noting a fault. */
static inline int64_t atc_resolve_index(struct atc_fault *fault, int64_t index, int64_t size)
{
    /* Unsigned, a comparison is for both ends. */
    const uint64_t position = (uint64_t)index + (index < 0 ? (uint64_t)size : 0);
    if (position < (uint64_t)size)
        return (int64_t)position;
    atc_note_fault(fault, FAULT_INDEX_OUTSIDE, index, size);
    return -1;
}

#endif
