/* softmax: e^x / Σe^x along one dim, and its logarithm.
 *
 *     x, y  [outer, n, inner]; y may be x
 *
 * The largest element is taken off first, so that nothing overflows.
 */
#ifndef ATC_SOFTMAX_H
#define ATC_SOFTMAX_H

#include "core/kernel.h"

enum softmax_kind { SOFTMAX, LOG_SOFTMAX };
extern const char *const softmax_kinds[];

/* Neighbouring columns that one item makes where inner is not 1. */
enum { SOFTMAX_COLUMNS = 16 };

#define SOFTMAX_FIELDS(I64, I64S, F64, ENUM)                                                       \
    ENUM(kind, softmax_kinds) I64(outer) I64(n) I64(inner)
DECLARE_PARAMS(softmax, SOFTMAX_FIELDS)

/* Where an item's first element lies, and how many columns it has. */
struct softmax_item {
    int64_t at, columns;
};

static inline struct softmax_item softmax_item_at(const struct softmax_params *p, int64_t item)
{
    const int64_t chunks = ceil_div(p->inner, SOFTMAX_COLUMNS);
    const int64_t column = item % chunks * SOFTMAX_COLUMNS;
    return (struct softmax_item){item / chunks * p->n * p->inner + column,
                                 min_i64(SOFTMAX_COLUMNS, p->inner - column)};
}

#endif
