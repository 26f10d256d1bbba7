/* How updates are scattered: the kinds by number, their names, and what they are for. */
#ifndef ATC_COMBINE_KIND_H
#define ATC_COMBINE_KIND_H

#include "core/kernel.h"

/* What becomes of an element that is there already, when an update comes. */
enum combine_kind {
    COMBINE_NONE,
    COMBINE_ADD,
    COMBINE_MUL,
    COMBINE_MAX,
    COMBINE_MIN,
    COMBINE_KINDS,
};

#define COMBINE_NAMES "none", "add", "mul", "max", "min"

/* True if updates x may go into y: any type replaces, numbers and truth values combine. */
static inline bool combine_ok(int64_t kind, int64_t dtype, int64_t item, const struct atc_slot *x,
                              const struct atc_slot *y)
{
    if (kind == COMBINE_NONE)
        return true;
    return dtype == x->dtype && x->dtype == y->dtype && atc_is_number(x->dtype) &&
           atc_item_bytes(x->dtype) == item;
}

#endif
