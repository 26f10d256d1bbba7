/* normalize: a row less its mean, divided by its deviation, scaled and shifted.
 *
 *     x, y         [rows, n]; y may be x
 *     scale, bias  element i of row r takes entry (r mod period)·(n/run) + i/run; optional
 *
 *     layer  (x − mean) / √(var + epsilon) · scale + bias
 *     rms    x / √(mean of x² + epsilon) · scale + bias
 *
 * LayerNormalization has run = 1, period = 1; GroupNormalization has run = pixels, period = groups.
 *
 * With lines[0] > 0, and run = period = 1, x is a sum, added in the order of its terms:
 *
 *     term t  [lines[t], n], of which row r takes line r mod lines[t]; or, with numbers[t] > 0, the
 *             line that number r mod numbers[t] of its indices names. lines[t] = 0: there is none
 *     sum     [rows, n]; optional second result
 *
 * A negative index counts from the end; one outside is a fault, and its row is left as it is.
 */
#ifndef ATC_NORMALIZE_H
#define ATC_NORMALIZE_H

#include "core/index.h"
#include "core/kernel.h"

enum normalize_kind { NORMALIZE_LAYER, NORMALIZE_RMS };
extern const char *const normalize_kinds[];
enum { NORM_X, NORM_SCALE, NORM_BIAS, NORM_OPERANDS };
/* Of sums: indices of each term, then the terms behind x. */
enum { NORM_TERMS = 3, NORM_INDICES = 3, NORM_MORE = 6, NORM_SUM_OPERANDS = 8 };
enum { NORM_Y, NORM_SUM, NORM_RESULTS };

#define NORMALIZE_FIELDS(I64, I64S, F64, ENUM)                                                     \
    ENUM(kind, normalize_kinds) I64(rows) I64(n) I64(run) I64(period) F64(epsilon)                 \
        I64S(lines, 3) I64S(numbers, 3) I64S(index_item, 3)
DECLARE_PARAMS(normalize, NORMALIZE_FIELDS)

/* Where term t is among the operands. */
static inline int norm_term(int t)
{
    return t == 0 ? NORM_X : NORM_MORE + t - 1;
}

/* The line of term t that a row takes, or -1 after noting a fault. */
static inline int64_t norm_line(const struct kernel_args *args, int t, int64_t row)
{
    const struct normalize_params *p = args->params;
    if (p->numbers[t] == 0)
        return row % p->lines[t];
    const int64_t at = row % p->numbers[t];
    const int64_t index = atc_read_index(args->src[NORM_INDICES + t], at, p->index_item[t]);
    return atc_resolve_index(args->fault, index, p->lines[t]);
}

#endif
