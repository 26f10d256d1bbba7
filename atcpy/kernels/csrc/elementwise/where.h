/* where: y = condition ? a : b with broadcasting, for elements of any one size.
 *
 *     condition, a, b   walked by dims and strides (broadcast.h); a byte of the condition is true
 *                       unless it is 0
 *     y                 row-major; may be a or b, where that is walked so without broadcasting
 */
#ifndef ATC_WHERE_H
#define ATC_WHERE_H

#include "core/broadcast.h"

#define WHERE_FIELDS(I64, I64S, F64, ENUM)                                                         \
    I64(rank) I64(item) I64S(dims, 8) I64S(c_strides, 8) I64S(a_strides, 8) I64S(b_strides, 8)
DECLARE_PARAMS(where, WHERE_FIELDS)

static inline struct broadcast where_walk(const struct where_params *p)
{
    return (struct broadcast){p->rank, p->dims, 3, {p->c_strides, p->a_strides, p->b_strides}};
}

/* n elements in a row; an operand of which `moves` is 0 is one element. */
typedef void where_run_fn(int64_t item, const void *condition, const void *a, const void *b,
                          void *dst, int64_t n, const int64_t *moves);
where_run_fn where_run_scalar, where_run_avx2, where_run_avx512f;

#endif
