/* The strided_copy family: its checker, and how a copy is cut into plates of two dims. */
#include "core/strides.h"
#include "move/strided_copy.h"
#include "simd/streamed.h"

#include <string.h>

/* Lowest and highest element that the indices reach; false if that is out of range. */
static bool reach(const int64_t *dims, const int64_t *strides, int64_t rank, int64_t offset,
                  int64_t *highest)
{
    int64_t below = 0, above = offset;
    for (int64_t i = 0; i < rank; i++) {
        if (strides[i] <= -ATC_TOO_BIG || strides[i] >= ATC_TOO_BIG)
            return false;
        if (strides[i] < 0)
            below = atc_add(below, atc_mul(dims[i] - 1, -strides[i]));
        else
            above = atc_add(above, atc_mul(dims[i] - 1, strides[i]));
    }
    *highest = above;
    return offset >= 0 && below <= offset && above < ATC_TOO_BIG;
}

/* True if source and destination are one block of memory and the copy is more than no copy at all.
 */
static bool moves_within_itself(const struct task_view *task)
{
    const struct strided_copy_params *p = task->params;
    const struct atc_slot *src = task->src, *dst = task->dst;
    if (task->n_src == 0 || !atc_same_memory(src, dst))
        return false;
    bool moves = p->src_offset != p->dst_offset;
    for (int64_t i = 0; i < p->rank; i++)
        moves |= p->dims[i] > 1 && p->src_strides[i] != p->dst_strides[i];
    return moves;
}

static const char *check(const struct task_view *task)
{
    const struct strided_copy_params *p = task->params;
    if (task->n_src > 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_dims_ok(p->dims, p->rank))
        return "rank or a dim is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    if (p->item == 16 && p->value != 0)
        return "the value does not fit its type";
    const int64_t elements = atc_product(p->dims, p->rank);
    if (elements == 0) /* nothing moves: strides of an empty tensor may be 0 */
        return NULL;
    for (int64_t i = 0; i < p->rank; i++) {
        if (p->dst_strides[i] < (p->dims[i] > 1))
            return "a destination stride is not positive";
        if (task->n_src == 0 && p->src_strides[i] != 0)
            return "a fill has source strides";
    }
    if (task->n_src == 0 && p->src_offset != 0)
        return "a fill has a source offset";
    int64_t dst_last, src_last;
    if (!reach(p->dims, p->dst_strides, p->rank, p->dst_offset, &dst_last) ||
        !atc_holds(task, task->dst, DTYPE_ANY, atc_add(dst_last, 1), p->item))
        return "the copy reaches beyond the destination";
    if (!atc_runs_apart(p->dims, p->dst_strides, (int)p->rank, 1))
        return "elements of the destination overlap";
    if (task->n_src == 1 && (!reach(p->dims, p->src_strides, p->rank, p->src_offset, &src_last) ||
                             !atc_holds(task, task->src, DTYPE_ANY, atc_add(src_last, 1), p->item)))
        return "the copy reaches beyond the source";
    return moves_within_itself(task) ? "a copy within its own memory moves elements" : NULL;
}

/* --- cutting into plates -----------------------------------------------------------------------
 */

enum { PLATE_BYTES = 16384, FILL_BYTES = 1 << 18, TILE = 16 };

/* The columns are the last dim. The rows are the dim along which the source lies, so that both
 * sides of a transpose are read and written in whole cache lines; of a large tensor, that along
 * which the source goes on behind the columns; else the last but one, or the longest where that is
 * short. Plates are those of nested loops: over the dims that are neither, over plates of rows,
 * over plates of columns.
 */
struct cutting {
    struct plate whole;
    int64_t rows, columns; /* of a plate */
    int n_loops;
    int64_t count[ATC_MAX_RANK + 1];
    int64_t src_step[ATC_MAX_RANK + 1], dst_step[ATC_MAX_RANK + 1]; /* elements */
    int64_t plates;
};

/* True if the destination spans more than a CPU's last cache is likely to hold. */
static bool is_large(const struct strided_copy_params *p)
{
    for (int64_t i = 0; i < p->rank; i++)
        if (atc_mul(atc_mul(p->dims[i], p->dst_strides[i]), p->item) >= MIN_STREAMED)
            return true;
    return false;
}

static int64_t row_dim(const struct strided_copy_params *p)
{
    enum { FEW = 3, FEW_ROWS = 8 }; /* a transpose, or any copy, is slow along fewer */
    const int64_t last = p->rank - 1;
    if (p->src_strides[last] != 1)
        for (int64_t i = last - 1; i >= 0; i--)
            if (p->src_strides[i] == 1 && p->dims[i] >= FEW)
                return i;
    /* CPUs read ahead in the order of memory, and do not wait for stores that lie apart. */
    if (p->src_strides[last] == 1 && is_large(p))
        for (int64_t i = last - 1; i >= 0; i--)
            if (p->src_strides[i] == p->dims[last] && p->dims[i] >= FEW_ROWS)
                return i;
    int64_t rows = last - 1;
    if (rows >= 0 && p->dims[rows] < FEW_ROWS)
        for (int64_t i = last - 2; i >= 0; i--)
            if (p->dims[i] > p->dims[rows])
                rows = i;
    return rows;
}

static int64_t ceil_of(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void add_loop(struct cutting *c, int64_t count, int64_t src_step, int64_t dst_step)
{
    c->count[c->n_loops] = count;
    c->src_step[c->n_loops] = src_step;
    c->dst_step[c->n_loops++] = dst_step;
    c->plates *= count;
}

static struct cutting cut(const struct strided_copy_params *p)
{
    struct cutting c = {.whole = {1, 0, 0, 1, 0, 0, false}, .plates = 1};
    if (atc_product(p->dims, p->rank) == 0) {
        c.plates = 0;
        return c;
    }
    c.whole.is_streamed = is_large(p);
    if (p->rank > 0) {
        const int64_t columns = p->rank - 1, rows = row_dim(p);
        c.whole.columns = p->dims[columns];
        c.whole.src_column = p->src_strides[columns];
        c.whole.dst_column = p->dst_strides[columns];
        if (rows >= 0) {
            c.whole.rows = p->dims[rows];
            c.whole.src_row = p->src_strides[rows];
            c.whole.dst_row = p->dst_strides[rows];
        }
        for (int64_t i = 0; i < columns; i++)
            if (i != rows)
                add_loop(&c, p->dims[i], p->src_strides[i], p->dst_strides[i]);
    }
    /* CPUs fill long runs without reading their lines before, which takes a while to begin. */
    const bool fills_run = c.whole.is_streamed && c.whole.src_column == 0 &&
                           c.whole.dst_column == 1 && c.whole.columns >= FILL_BYTES / p->item;
    /* A transpose wants plates that are nearly square, other copies long columns. */
    const int64_t room = (fills_run ? FILL_BYTES : PLATE_BYTES) / p->item;
    int64_t columns = c.whole.src_column == 1 || c.whole.src_row != 1 ? room : 4 * TILE;
    if (columns > c.whole.columns)
        columns = c.whole.columns;
    c.columns = columns;
    c.rows = fills_run ? 1 : ceil_of(ceil_of(room, columns), TILE) * TILE;
    if (c.rows > c.whole.rows)
        c.rows = c.whole.rows;
    add_loop(&c, ceil_of(c.whole.rows, c.rows), c.rows * c.whole.src_row, c.rows * c.whole.dst_row);
    add_loop(&c, ceil_of(c.whole.columns, c.columns), c.columns * c.whole.src_column,
             c.columns * c.whole.dst_column);
    return c;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct strided_copy_params *p = params;
    /* Of a row, whose columns may be few, as in the border of a Pad; and of each column where they
     * do not lie together.
     */
    enum { ROW_WORK = 16, COLUMN_WORK = 4 };
    const int64_t elements = atc_product(p->dims, p->rank), last = p->rank - 1;
    const bool lies_together = last >= 0 && p->dst_strides[last] == 1 && p->dims[last] > 0;
    const int64_t moves = lies_together ? atc_mul(elements / p->dims[last], ROW_WORK)
                                        : atc_mul(elements, COLUMN_WORK);
    return (struct kernel_cost){.items = cut(p).plates,
                                .work = atc_add(atc_mul(elements, p->item) / 8, moves)};
}

DEFINE_FAMILY(strided_copy, STRIDED_COPY_FIELDS, .check = check, .cost = cost, .inplace = 1);

/* True for a transpose of elements of `item` bytes whose sides are at least `side` long: of shorter
 * ones, a tile in registers is mostly empty.
 */
static bool transposes(const struct strided_copy_params *p, int64_t item, int64_t side)
{
    const struct plate whole = cut(p).whole;
    return p->item == item && whole.src_row == 1 && whole.dst_column == 1 && whole.rows >= side &&
           whole.columns >= side;
}

bool strided_copy_transposes_b32(const struct task_view *task)
{
    const struct strided_copy_params *p = task->params;
    return transposes(p, 4, 3) && p->src_strides[p->rank - 1] != 3;
}

bool strided_copy_transposes(const struct task_view *task)
{
    return transposes(task->params, 1, 16) || transposes(task->params, 2, 8) ||
           transposes(task->params, 8, 8);
}

void strided_copy_drive(const struct kernel_args *args, copy_plate copy)
{
    const struct strided_copy_params *p = args->params;
    const struct cutting c = cut(p);
    const int64_t value[2] = {p->value, 0};
    const uint8_t *src = args->src[0] != NULL ? args->src[0] : (const uint8_t *)value;
    uint8_t *dst = args->dst[0];
    if (src == dst || args->begin >= args->end)
        return;
    int64_t from = p->src_offset, to = p->dst_offset;
    int64_t at[ATC_MAX_RANK + 1];
    int64_t left = args->begin;
    for (int i = c.n_loops - 1; i >= 0; i--) {
        at[i] = left % c.count[i];
        left /= c.count[i];
        from += at[i] * c.src_step[i];
        to += at[i] * c.dst_step[i];
    }
    const int columns = c.n_loops - 1, rows = columns - 1; /* loops over plates */
    for (int64_t item = args->begin; item < args->end; item++) {
        struct plate plate = c.whole;
        plate.rows = min_i64(c.rows, c.whole.rows - at[rows] * c.rows);
        plate.columns = min_i64(c.columns, c.whole.columns - at[columns] * c.columns);
        copy(dst + to * p->item, src + from * p->item, &plate);
        /* A plate may be a few elements: to find the next one must not divide. */
        for (int i = columns; i >= 0; i--) {
            from += c.src_step[i];
            to += c.dst_step[i];
            if (++at[i] < c.count[i])
                break;
            at[i] = 0;
            from -= c.count[i] * c.src_step[i];
            to -= c.count[i] * c.dst_step[i];
        }
    }
    if (c.whole.is_streamed)
        end_stream();
}
