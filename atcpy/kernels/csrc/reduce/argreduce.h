/* argreduce: the index of the largest or least element along one dim.
 *
 *     x  [outer, n, inner]
 *     y  [outer, inner], int64
 *
 * Among equals the first, or with `last` the last; NaN is larger and less than any number.
 */
#ifndef ATC_ARGREDUCE_H
#define ATC_ARGREDUCE_H

#include "core/kernel.h"

enum argreduce_kind { ARG_MAX, ARG_MIN };
extern const char *const argreduce_kinds[];

/* Neighbouring results that one item makes. */
enum { ARG_COLUMNS = 64 };

#define ARGREDUCE_FIELDS(I64, I64S, F64, ENUM)                                                     \
    ENUM(kind, argreduce_kinds) I64(outer) I64(n) I64(inner) I64(last)
DECLARE_PARAMS(argreduce, ARGREDUCE_FIELDS)

/* Reduces the items of a call: the largest or the smallest, the first or the last of equal ones. */
typedef void argreduce_items(const struct kernel_args *args, bool max, bool last);

/* Calls `reduce_items` with constants, so that the compiler makes a loop for each. */
static inline __attribute__((always_inline)) void argreduce_run(const struct kernel_args *args,
                                                                argreduce_items *reduce_items)
{
    const struct argreduce_params *p = args->params;
    if (p->kind == ARG_MAX && !p->last)
        reduce_items(args, true, false);
    else if (p->kind == ARG_MAX)
        reduce_items(args, true, true);
    else if (!p->last)
        reduce_items(args, false, false);
    else
        reduce_items(args, false, true);
}

#endif
