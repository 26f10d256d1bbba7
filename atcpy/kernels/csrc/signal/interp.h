/* interp: interpolation along each of up to five dims by tables that say which indices of the input
 * a result is mixed of, and what each counts.
 *
 *     x        [outer, in…, inner]
 *     indices  for each dim [out, taps], int32, one table after the other; a first tap of −1: every
 *              result at this index is `fill`
 *     weights  the same of the results' type, or, for integers, of the type of `sums`; left out
 * where each table has one tap, and elements are moved, whatever they are y        [outer, out…,
 * inner]; integers stay within their type's bounds
 */
#ifndef ATC_INTERP_H
#define ATC_INTERP_H

#include "core/pieces.h"

enum { INTERP_DIMS = 5 };

/* How integers are mixed and rounded: in float64, cut off toward zero or to the nearest, ties to
 * even; or in float32, cut off. Those of 8 and 16 bits are mixed in float32 as ONNX Runtime does:
 * the products one after the other, the last dim first, each of the weights from the last dim on.
 */
enum interp_sums { INTERP_CUT, INTERP_NEAREST, INTERP_CUT_F32 };
extern const char *const interp_sums_names[];

#define INTERP_FIELDS(I64, I64S, F64, ENUM)                                                        \
    ENUM(sums, interp_sums_names)                                                                  \
    I64(outer)                                                                                     \
    I64S(in, INTERP_DIMS) I64S(out, INTERP_DIMS) I64S(taps, INTERP_DIMS) I64(inner) I64(item)      \
        I64(fill)
DECLARE_PARAMS(interp, INTERP_FIELDS)

enum { INTERP_X, INTERP_INDICES, INTERP_WEIGHTS, INTERP_OPERANDS };

/* A row of results along the last dim, and what its indices in the other dims are mixed of. */
struct interp_row {
    const int32_t *indices[INTERP_DIMS];
    int64_t first_weight[INTERP_DIMS]; /* the same, counted in elements of the weights */
    int64_t at[INTERP_DIMS];           /* its number along each dim but the last */
    int64_t x;                         /* elements before this image */
    bool is_fill;
};

struct interp_row interp_row_at(const struct kernel_args *args, int64_t item);

/* Goes on to the row of the next item, without the divisions that finding one takes. */
static inline void interp_next_row(const struct interp_params *p, struct interp_row *row)
{
    int i = INTERP_DIMS - 2;
    for (; i >= 0; i--) {
        const int64_t step = ++row->at[i] < p->out[i] ? 1 : 1 - p->out[i];
        row->indices[i] += step * p->taps[i];
        row->first_weight[i] += step * p->taps[i];
        if (step == 1)
            break;
        row->at[i] = 0;
    }
    if (i < 0)
        row->x += p->in[0] * p->in[1] * p->in[2] * p->in[3] * p->in[4] * p->inner;
    row->is_fill = false;
    for (i = 0; i < INTERP_DIMS - 1; i++)
        row->is_fill |= *row->indices[i] == -1;
}

/* False, and a fault noted, if a table points outside of the input where a row of the call looks;
 * or if the call is to end. Tables may be long, and rows few.
 */
bool interp_tables_ok(const struct kernel_args *args);

/* The next choice of one tap in each dim but the last; false after the last choice. */
static inline bool interp_next(const struct interp_params *p, int64_t *tap)
{
    for (int i = INTERP_DIMS - 2; i >= 0; i--) {
        if (++tap[i] < p->taps[i])
            return true;
        tap[i] = 0;
    }
    return false;
}

/* The row of the input that a choice of taps reads, counted in rows of the last dim. */
static inline int64_t interp_source(const struct interp_params *p, const struct interp_row *row,
                                    const int64_t *tap)
{
    int64_t at = 0;
    for (int i = 0; i < INTERP_DIMS - 1; i++)
        at = at * p->in[i] + row->indices[i][tap[i]];
    return at;
}

bool interp_mixes(const struct task_view *task);

#endif
