/* pad: y with borders around x in any mode, however wide: what a few copies cannot say.
 *
 *     x      what is kept of it has `sizes`, lies with x_strides, and begins at x_offset
 *     value  one element for the mode constant; left out: zero
 *     y      dims, row-major; index i of a dim is index i - before of what is kept
 *
 * Outside [0, size), edge takes the nearest index, wrap goes round, reflect there and back.
 */
#include "core/index.h"
#include "core/pieces.h"

#define PAD_FIELDS(I64, I64S, F64, ENUM)                                                           \
    ENUM(mode, pad_names)                                                                          \
    I64(rank) I64S(dims, 8) I64S(sizes, 8) I64S(before, 8) I64S(x_strides, 8) I64(x_offset) I64(item)
DECLARE_PARAMS(pad, PAD_FIELDS)

/* In the order of `pad_names`. */
enum { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_WRAP };
enum { PAD_X, PAD_VALUE, PAD_OPERANDS };

/* Rows, along the last dim, that an item makes. */
static inline int64_t pad_rows_per_item(const struct pad_params *p)
{
    enum { ITEM_ELEMENTS = 4096 };
    const int64_t rows = ITEM_ELEMENTS / (p->dims[p->rank - 1] + 1);
    return rows < 1 ? 1 : rows;
}

static const char *const pad_names[] = {"constant", "edge", "reflect", "wrap", NULL};

static int64_t rows_of(const struct pad_params *p)
{
    return atc_product(p->dims, p->rank - 1);
}

static const char *check(const struct task_view *task)
{
    const struct pad_params *p = task->params;
    if (task->n_src < 1 || task->n_src > PAD_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (p->rank < 1 || !atc_dims_ok(p->dims, p->rank) ||
        !atc_sizes_ok(p->sizes, (int)p->rank, p->mode == PAD_CONSTANT ? 0 : 1) ||
        !atc_sizes_ok(p->x_strides, (int)p->rank, 0) || !atc_sizes_ok(p->before, (int)p->rank, 0) ||
        !ATC_SIZES_OK(0, p->x_offset))
        return "rank or a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    int64_t last = p->x_offset;
    bool is_empty = false;
    for (int64_t i = 0; i < p->rank; i++) {
        is_empty |= p->sizes[i] == 0;
        last = atc_add(last, p->sizes[i] == 0 ? 0 : atc_mul(p->sizes[i] - 1, p->x_strides[i]));
    }
    const int64_t elements = atc_mul(rows_of(p), p->dims[p->rank - 1]);
    if (!atc_holds(task, task->src + PAD_X, DTYPE_ANY, is_empty ? 0 : atc_add(last, 1), p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements, p->item) ||
        !atc_holds_optional(task, PAD_VALUE, DTYPE_ANY, 1, p->item))
        return "an operand is too small";
    return NULL;
}

/* An item is some rows. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct pad_params *p = params;
    return (struct kernel_cost){
        .items = p->dims[p->rank - 1] == 0 ? 0 : ceil_div(rows_of(p), pad_rows_per_item(p)),
        .work = atc_mul(rows_of(p), atc_add(atc_mul(p->dims[p->rank - 1], 3), p->rank))};
}

DEFINE_FAMILY(pad, PAD_FIELDS, .check = check, .cost = cost);

/* The index of a dim that index `at` of the result shows, or -1 for the constant. */
static int64_t source_of(int64_t mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    if (mode == PAD_CONSTANT)
        return -1;
    if (mode == PAD_EDGE)
        return at < 0 ? 0 : size - 1;
    const int64_t period = mode == PAD_WRAP ? size : size == 1 ? 1 : 2 * (size - 1);
    const int64_t turned = (at % period + period) % period;
    return turned < size ? turned : period - turned;
}

/* First element of a row in x, or -1 where all of it is constant. */
static int64_t row_start(const struct pad_params *p, int64_t row)
{
    int64_t start = p->x_offset;
    for (int64_t i = p->rank - 2; i >= 0; i--) {
        const int64_t at = row % p->dims[i];
        row /= p->dims[i];
        const int64_t from = source_of(p->mode, at - p->before[i], p->sizes[i]);
        if (from < 0)
            return -1;
        start += from * p->x_strides[i];
    }
    return start;
}

void pad_any_scalar(const struct kernel_args *args)
{
    const struct pad_params *p = args->params;
    static const uint8_t zero[16];
    const int64_t last = p->rank - 1, columns = p->dims[last], item = p->item;
    const int64_t size = p->sizes[last], before = p->before[last];
    const uint8_t *value = args->src[PAD_VALUE] != NULL ? args->src[PAD_VALUE] : zero;
    int64_t rows = 1;
    for (int64_t i = 0; i < last; i++)
        rows *= p->dims[i];
    const int64_t each = pad_rows_per_item(p), end = min_i64(args->end * each, rows);
    for (int64_t row = args->begin * each; row < end; row++) {
        uint8_t *y = (uint8_t *)args->dst[0] + row * columns * item;
        const int64_t start = row_start(p, row);
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, columns);)
            for (int64_t i = piece.begin; i < piece.end; i++) {
                const int64_t from = start < 0 ? -1 : source_of(p->mode, i - before, size);
                const int64_t at = from < 0 ? 0 : start + from * p->x_strides[last];
                const uint8_t *x = (const uint8_t *)args->src[PAD_X] + at * item;
                memcpy(y + i * item, from < 0 ? value : x, (size_t)item);
            }
    }
}
