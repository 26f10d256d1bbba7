/* trilu: a triangle of each matrix, the rest zero.
 *
 *     x, y  [matrices, rows, cols], elements of `item` bytes
 *     k     one int64, or left out for 0
 *
 * With `upper`, y[i][j] = x[i][j] where j >= i + k, without where j <= i + k. y may be x.
 */
#include "core/pieces.h"

#define TRILU_FIELDS(I64, I64S, F64, ENUM) I64(matrices) I64(rows) I64(cols) I64(upper) I64(item)
DECLARE_PARAMS(trilu, TRILU_FIELDS)

enum { TRILU_X, TRILU_K, TRILU_OPERANDS };

/* Rows that an item makes: some kilobytes. */
static inline int64_t trilu_rows_per_item(const struct trilu_params *p)
{
    enum { ITEM_BYTES = 16384 };
    const int64_t rows = ITEM_BYTES / (p->cols * p->item + 1);
    return rows < 1 ? 1 : rows;
}

static const char *check(const struct task_view *task)
{
    const struct trilu_params *p = task->params;
    if (task->n_src < 1 || task->n_src > TRILU_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->matrices, p->rows, p->cols))
        return "a size is out of range";
    if (p->upper != 0 && p->upper != 1)
        return "upper is neither 0 nor 1";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    const int64_t elements = atc_mul(atc_mul(p->matrices, p->rows), p->cols);
    if (!atc_holds(task, task->src + TRILU_X, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements, p->item) ||
        (task->n_src > TRILU_K && !atc_holds(task, task->src + TRILU_K, DTYPE_I64, 1, 8)))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* An item is some rows. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct trilu_params *p = params;
    return (struct kernel_cost){
        .items = p->cols == 0 ? 0 : ceil_div(p->matrices * p->rows, trilu_rows_per_item(p)),
        .work = atc_mul(atc_mul(p->matrices, p->rows), atc_mul(p->cols, p->item) / 8 + 4)};
}

DEFINE_FAMILY(trilu, TRILU_FIELDS, .check = check, .cost = cost, .inplace = 1u << TRILU_X);

/* i + k within [0, cols]; k may be any number. */
static int64_t clamped(int64_t i, int64_t k, int64_t cols)
{
    if (k >= cols - i)
        return cols;
    return k <= -i ? 0 : i + k;
}

void trilu_any_scalar(const struct kernel_args *args)
{
    const struct trilu_params *p = args->params;
    const int64_t *diagonal = args->src[TRILU_K];
    const int64_t k = diagonal == NULL ? 0 : *diagonal;
    const int64_t each = trilu_rows_per_item(p), all = p->matrices * p->rows;
    const int64_t end = args->end * each < all ? args->end * each : all;
    const int64_t row_bytes = p->cols * p->item;
    for (int64_t row = args->begin * each; row < end; row++) {
        const int64_t i = row % p->rows;
        /* Columns before the cut belong to the lower triangle. */
        const int64_t cut = clamped(p->upper ? i : i + 1, k, p->cols);
        const int64_t before = cut * p->item, after = row_bytes - before;
        const uint8_t *x = (const uint8_t *)args->src[TRILU_X] + row * row_bytes;
        uint8_t *y = (uint8_t *)args->dst[0] + row * row_bytes;
        const int64_t kept = p->upper ? before : 0;
        if (y != x)
            atc_copy(args, y + kept, x + kept, p->upper ? after : before);
        atc_clear(args, y + before - kept, p->upper ? before : after);
    }
}
