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

#endif
