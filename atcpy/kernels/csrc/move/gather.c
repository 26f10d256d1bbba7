/* gather: dst[o][k] = data[o][index(o, k)], rows of `inner` elements.
 *
 *     data     [outer, dims[0], …, dims[depth - 1], inner]
 *     indices  [count, depth], or with index_stride = count · depth [outer, count, depth]
 *     dst      [outer, count, inner]
 *
 * An index is `depth` numbers of index_item bytes, 4 or 8. A negative number counts from the end of
 * its dim; one outside [-dim, dim) is a fault, and its row is left as it is.
 */
#include "core/index.h"
#include "core/pieces.h"

#define GATHER_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(outer) I64(index_stride) I64(count) I64(depth) I64S(dims, 8) I64(inner) I64(item)          \
        I64(index_item)
DECLARE_PARAMS(gather, GATHER_FIELDS)

enum { GATHER_DATA, GATHER_INDICES, GATHER_OPERANDS };

/* Rows that an item copies: some kilobytes. */
static inline int64_t gather_rows_per_item(const struct gather_params *p)
{
    enum { ITEM_BYTES = 4096 };
    const int64_t rows = ITEM_BYTES / (p->inner * p->item + 1);
    return rows < 1 ? 1 : rows;
}

static const char *check(const struct task_view *task)
{
    const struct gather_params *p = task->params;
    if (task->n_src != GATHER_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->index_stride, p->count, p->inner) || p->depth < 1 ||
        !atc_dims_ok(p->dims, p->depth))
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    if (!atc_is_index(task->src + GATHER_INDICES, p->index_item))
        return "indices are neither int32 nor int64";
    const int64_t indices = atc_mul(p->count, p->depth);
    if (p->index_stride != 0 && p->index_stride != indices)
        return "index_stride fits neither way";
    if (p->outer == 0 || p->count == 0 || p->inner == 0)
        return NULL;
    const int64_t data = atc_mul(atc_mul(p->outer, p->inner), atc_product(p->dims, p->depth));
    if (!atc_holds(task, task->src + GATHER_DATA, DTYPE_ANY, data, p->item) ||
        !atc_holds(task, task->src + GATHER_INDICES, DTYPE_ANY,
                   p->index_stride == 0 ? indices : atc_mul(indices, p->outer), p->index_item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, atc_mul(atc_mul(p->outer, p->count), p->inner),
                   p->item))
        return "an operand is too small";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct gather_params *p = params;
    const int64_t each = gather_rows_per_item(p), rows = atc_mul(p->outer, p->count);
    return (struct kernel_cost){
        .items = p->inner == 0 ? 0 : ceil_div(rows, each),
        .work = atc_add(atc_mul(rows, p->depth), atc_mul(rows, atc_mul(p->inner, p->item)) / 8)};
}

DEFINE_FAMILY(gather, GATHER_FIELDS, .check = check, .cost = cost);

/* The row of `data` that the index from number `first` names, or -1 after noting a fault. */
static int64_t find_row(const struct kernel_args *args, int64_t first)
{
    const struct gather_params *p = args->params;
    int64_t row = 0;
    for (int64_t i = 0; i < p->depth; i++) {
        const int64_t index = atc_read_index(args->src[GATHER_INDICES], first + i, p->index_item);
        const int64_t position = atc_resolve_index(args->fault, index, p->dims[i]);
        if (position < 0)
            return -1;
        row = row * p->dims[i] + position;
    }
    return row;
}

void gather_any_scalar(const struct kernel_args *args)
{
    const struct gather_params *p = args->params;
    const int64_t each = gather_rows_per_item(p), all = p->outer * p->count;
    const int64_t end = args->end * each < all ? args->end * each : all;
    const int64_t bytes = p->inner * p->item;
    const int64_t rows = atc_product(p->dims, p->depth);
    const uint8_t *data = args->src[GATHER_DATA];
    for (int64_t at = args->begin * each; at < end; at++) {
        const int64_t outer = at / p->count, k = at % p->count;
        const int64_t row = find_row(args, outer * p->index_stride + k * p->depth);
        if (row < 0)
            return;
        uint8_t *to = (uint8_t *)args->dst[0] + at * bytes;
        const uint8_t *from = data + (outer * rows + row) * bytes;
        if (bytes == 4)
            memcpy(to, from, 4);
        else
            atc_copy(args, to, from, bytes);
    }
}
