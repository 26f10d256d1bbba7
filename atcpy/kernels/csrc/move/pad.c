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

static const char *const pad_names[] = {"constant", "edge", "reflect", "wrap", NULL};

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
    const int64_t elements = atc_product(p->dims, p->rank);
    if (!atc_holds(task, task->src + PAD_X, DTYPE_ANY, is_empty ? 0 : atc_add(last, 1), p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements, p->item) ||
        !atc_holds_optional(task, PAD_VALUE, DTYPE_ANY, 1, p->item))
        return "an operand is too small";
    return NULL;
}

/* Rows lie along the last dim; along the one before if the last is short and has no border: all of
 * it is then one element of theirs.
 */
struct rows {
    int64_t dim, count, columns;
    int64_t bytes, step; /* of an element of y, and from one to the next of x */
    int64_t per_item;
};

static struct rows rows_of(const struct pad_params *p)
{
    enum { ITEM_BYTES = 16384, SHORT = 256 };
    const int64_t last = p->rank - 1;
    const bool is_whole =
        last > 0 && p->mode != PAD_CONSTANT && atc_mul(p->dims[last], p->item) <= SHORT &&
        p->sizes[last] == p->dims[last] && p->before[last] == 0 && p->x_strides[last] == 1;
    struct rows rows = {.dim = is_whole ? last - 1 : last};
    rows.count = atc_product(p->dims, rows.dim);
    rows.columns = p->dims[rows.dim];
    rows.bytes = is_whole ? atc_mul(p->dims[last], p->item) : p->item;
    rows.step = atc_mul(p->x_strides[rows.dim], p->item);
    rows.per_item = ITEM_BYTES / atc_add(atc_mul(rows.columns, rows.bytes), 1) + 1;
    return rows;
}

/* An item is some rows. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct pad_params *p = params;
    const struct rows rows = rows_of(p);
    return (struct kernel_cost){
        .items = rows.columns == 0 || rows.bytes == 0 ? 0 : ceil_div(rows.count, rows.per_item),
        .work = atc_mul(rows.count, atc_add(atc_mul(rows.columns, 3 + rows.bytes / 8), p->rank))};
}

DEFINE_FAMILY(pad, PAD_FIELDS, .check = check, .cost = cost);

/* Neighbours of the result that show the elements from, from + step … of x; from is -1 for the
 * constant.
 */
struct run {
    int64_t from, step, count;
};

/* Those at index `at` of a dim, before which the border ends at 0. */
static inline struct run run_at(int64_t mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return (struct run){at, 1, size - at};
    if (mode == PAD_CONSTANT || mode == PAD_EDGE) {
        const int64_t from = mode == PAD_CONSTANT ? -1 : at < 0 ? 0 : size - 1;
        return (struct run){from, 0, at < 0 ? -at : ATC_TOO_BIG};
    }
    const int64_t period = mode == PAD_WRAP ? size : size == 1 ? 1 : 2 * (size - 1);
    int64_t turned = at > -period && at < 2 * period ? at : at % period;
    turned += turned < 0 ? period : turned < period ? 0 : -period;
    if (turned < size)
        return (struct run){turned, 1, size - turned};
    return (struct run){period - turned, -1, period - turned};
}

enum { BLOCK = 64 }; /* rows of which a run of columns is written at once */

/* Finds the bytes of x at which `n` rows from `row` on begin; -1 for those of constants alone. */
static void find_starts(const struct pad_params *p, int64_t row_dim, int64_t row, int64_t n,
                        int64_t *starts)
{
    for (int64_t done = 0; done < n;) {
        int64_t left = row + done, start = p->x_offset, step = 0, count = n - done;
        for (int64_t i = row_dim - 1; i >= 0; i--) {
            const int64_t at = left % p->dims[i];
            const struct run run = run_at(p->mode, at - p->before[i], p->sizes[i]);
            left /= p->dims[i];
            start = start < 0 || run.from < 0 ? -1 : start + run.from * p->x_strides[i];
            if (i == row_dim - 1) {
                step = run.step * p->x_strides[i];
                count = min_i64(count, min_i64(run.count, p->dims[i] - at));
            }
        }
        for (int64_t end = done + count; done < end; done++) {
            starts[done] = start < 0 ? -1 : start * p->item;
            start += start < 0 ? 0 : step;
        }
    }
}

/* The columns of `run`, of the rows that begin at `starts`. */
struct columns {
    uint8_t *y; /* the first row's */
    const uint8_t *x, *value;
    const int64_t *starts; /* bytes; below 0 where all is constant */
    int64_t n, row_bytes;
    struct run run; /* its step in bytes */
    int64_t count;
};

/* `bytes` of an element is a constant where the call says so. */
static inline __attribute__((always_inline)) void write_items(const struct columns *c,
                                                              int64_t bytes)
{
    const int64_t count = c->count;
    uint8_t *y = c->y;
    for (int64_t row = 0; row < c->n; row++, y += c->row_bytes) {
        const bool is_constant = c->starts[row] < 0 || c->run.from < 0;
        const uint8_t *x = is_constant ? c->value : c->x + c->starts[row] + c->run.from;
        const int64_t step = is_constant ? 0 : c->run.step;
        if (step == bytes && count > 8)
            memcpy(y, x, (size_t)(count * bytes));
        else
            for (int64_t i = 0; i < count; i++)
                memcpy(y + i * bytes, x + i * step, (size_t)bytes);
    }
}

static void write_columns(const struct columns *c, int64_t bytes)
{
    switch (bytes) {
    case 1:
        write_items(c, 1);
        break;
    case 2:
        write_items(c, 2);
        break;
    case 4:
        write_items(c, 4);
        break;
    case 8:
        write_items(c, 8);
        break;
    default:
        write_items(c, bytes);
    }
}

void pad_any_scalar(const struct kernel_args *args)
{
    const struct pad_params *p = args->params;
    static const uint8_t zero[16];
    const struct rows rows = rows_of(p);
    const int64_t size = p->sizes[rows.dim], before = p->before[rows.dim];
    const int64_t first = args->begin * rows.per_item;
    const int64_t end = min_i64(args->end * rows.per_item, rows.count);
    int64_t starts[BLOCK];
    struct columns c = {.x = args->src[PAD_X],
                        .value = args->src[PAD_VALUE] != NULL ? args->src[PAD_VALUE] : zero,
                        .starts = starts,
                        .row_bytes = rows.columns * rows.bytes};
    for (int64_t row = first; row < end; row += BLOCK) {
        uint8_t *y = (uint8_t *)args->dst[0] + row * c.row_bytes;
        c.n = min_i64(BLOCK, end - row);
        find_starts(p, rows.dim, row, c.n, starts);
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, rows.columns);)
            for (int64_t i = piece.begin; i < piece.end; i += c.count) {
                c.y = y + i * rows.bytes;
                c.run = run_at(p->mode, i - before, size);
                c.count = min_i64(c.run.count, piece.end - i);
                c.run.from = c.run.from < 0 ? -1 : c.run.from * rows.step;
                c.run.step *= rows.step;
                write_columns(&c, rows.bytes);
            }
    }
}
