/* reduce: sum, mean, largest … of the elements along some dims.
 *
 * The caller merges neighbouring dims that are all kept or all reduced. What is left:
 *
 *     x  at Σ kept[i]·kept_stride[i] + Σ reduced[j]·reduced_stride[j] + column
 *     y  [kept…, inner], dense
 *
 * `inner` is the innermost dim if it is kept, else 1; columns lie side by side. Unused dims are 1;
 * where a reduced dim is empty, the first one is.
 *
 *     sum Σx · mean Σx/n · max · min · prod Πx · l1 Σ|x| · l2 √Σx² · sum_square Σx²
 *     log_sum ln Σx · log_sum_exp ln Σe^x
 *
 * max and min are NaN if an element is. No elements at all: 0 for sums, 1 for prod, the least or
 * largest value for max and min, what follows by formula for the others (mean: NaN). Integer sums
 * and products wrap around; means and roots of integers are rounded towards 0. Float sums are taken
 * in runs that are added up in double; a result is always computed by one call, in one order.
 */
#ifndef ATC_REDUCE_H
#define ATC_REDUCE_H

#include "core/kernel.h"

enum { REDUCE_DIMS = 4 };
enum reduce_kind {
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_PROD,
    REDUCE_L1,
    REDUCE_L2,
    REDUCE_SUM_SQUARE,
    REDUCE_LOG_SUM,
    REDUCE_LOG_SUM_EXP,
};
extern const char *const reduce_kinds[];

#define REDUCE_FIELDS(I64, I64S, F64, ENUM)                                                        \
    ENUM(kind, reduce_kinds)                                                                       \
    I64S(kept, 4)                                                                                  \
    I64S(kept_stride, 4) I64S(reduced, 4) I64S(reduced_stride, 4) I64(inner)
DECLARE_PARAMS(reduce, REDUCE_FIELDS)

/* Columns of one item, where inner is larger. */
enum { REDUCE_COLUMNS = 64 };

/* One item: where it reads column 0, where it writes, how many columns it has. */
struct reduce_item {
    int64_t src, dst, columns;
};

static inline int64_t reduce_product(const int64_t *dims)
{
    return dims[0] * dims[1] * dims[2] * dims[3];
}

/* From one result's elements to the next one's, where each result is of one dense row that is not
 * long; else −1.
 */
static inline int64_t reduce_row_stride(const struct reduce_params *p, int64_t max_row)
{
    int64_t stride = 0, dims = 0;
    if (p->inner != 1 || p->reduced_stride[3] != 1 || p->reduced[3] > max_row ||
        reduce_product(p->reduced) != p->reduced[3])
        return -1;
    for (int i = 0; i < REDUCE_DIMS; i++)
        if (p->kept[i] != 1) {
            stride = p->kept_stride[i];
            dims++;
        }
    return dims <= 1 ? stride : -1;
}

/* Divisions take as long as the reduction of a short row: there are as few as can be. */
static inline struct reduce_item reduce_item_at(const struct reduce_params *p, int64_t item)
{
    int64_t column = 0, outer = item;
    if (p->inner > REDUCE_COLUMNS) {
        const int64_t chunks = ceil_div(p->inner, REDUCE_COLUMNS);
        column = item % chunks * REDUCE_COLUMNS;
        outer = item / chunks;
    }
    struct reduce_item at = {column, outer * p->inner + column,
                             min_i64(REDUCE_COLUMNS, p->inner - column)};
    for (int64_t i = REDUCE_DIMS - 1, rest = outer; i >= 0; i--) {
        if (rest < p->kept[i]) {
            at.src += rest * p->kept_stride[i];
            break;
        }
        if (p->kept[i] == 1)
            continue;
        at.src += rest % p->kept[i] * p->kept_stride[i];
        rest /= p->kept[i];
    }
    return at;
}

#endif
