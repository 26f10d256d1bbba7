/* nonzero: the indices of the elements that are not zero, in row-major order.
 *
 *     x      dims, elements of `item` bytes; as a float, -0 is zero too
 *     y      [rank, count], int64: room for [rank, elements]
 *     count  how many there are, one int64
 *
 * The elements are counted first, because rows of the result are as long as that.
 */
#include "core/pieces.h"

#define NONZERO_FIELDS(I64, I64S, F64, ENUM) I64(rank) I64S(dims, 8) I64(item) I64(is_float)
DECLARE_PARAMS(nonzero, NONZERO_FIELDS)

enum { NONZERO_Y, NONZERO_COUNT, NONZERO_RESULTS };

static const char *check(const struct task_view *task)
{
    const struct nonzero_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != NONZERO_RESULTS)
        return "wrong number of operands";
    if (!atc_dims_ok(p->dims, p->rank))
        return "rank or a dim is out of range";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8)
        return "items are of an unknown size";
    if (p->item != atc_item_bytes((enum atc_dtype)task->src->dtype))
        return "items are of another size than the operand's type"; /* which it is aligned for */
    if (p->is_float != 0 && p->is_float != 1)
        return "is_float is neither 0 nor 1";
    const int64_t elements = atc_product(p->dims, p->rank);
    if (!atc_holds(task, task->src, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task, task->dst + NONZERO_Y, DTYPE_I64, atc_mul(elements, p->rank), 8) ||
        !atc_holds(task, task->dst + NONZERO_COUNT, DTYPE_I64, 1, 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* The work is one item: where an index goes depends on all before it. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct nonzero_params *p = params;
    return (struct kernel_cost){.items = 1,
                                .work = atc_mul(atc_product(p->dims, p->rank), p->rank + 1)};
}

DEFINE_FAMILY(nonzero, NONZERO_FIELDS, .check = check, .cost = cost);

enum { SCANNED = 1024 }; /* elements at a time, whose positions are listed first */

/* The sign of a float says nothing about being zero. A position is written for each element, and
 * kept by counting it: no branch is there to be guessed.
 */
#define DEFINE_SIZE(type)                                                                          \
    static int64_t count_##type(const void *src, int64_t n, bool is_float)                         \
    {                                                                                              \
        const type *x = src;                                                                       \
        int64_t found = 0;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            found += (is_float ? (type)(x[i] << 1) : x[i]) != 0;                                   \
        return found;                                                                              \
    }                                                                                              \
                                                                                                   \
    static int64_t list_##type(const void *src, int64_t n, bool is_float, int16_t *positions)      \
    {                                                                                              \
        const type *x = src;                                                                       \
        int64_t found = 0;                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            positions[found] = (int16_t)i;                                                         \
            found += (is_float ? (type)(x[i] << 1) : x[i]) != 0;                                   \
        }                                                                                          \
        return found;                                                                              \
    }

DEFINE_SIZE(uint8_t)
DEFINE_SIZE(uint16_t)
DEFINE_SIZE(uint32_t)
DEFINE_SIZE(uint64_t)

struct scan {
    int64_t (*count)(const void *src, int64_t n, bool is_float);
    int64_t (*list)(const void *src, int64_t n, bool is_float, int16_t *positions);
};

static struct scan scan_of(int64_t item)
{
    return item == 1   ? (struct scan){count_uint8_t, list_uint8_t}
           : item == 2 ? (struct scan){count_uint16_t, list_uint16_t}
           : item == 4 ? (struct scan){count_uint32_t, list_uint32_t}
                       : (struct scan){count_uint64_t, list_uint64_t};
}

void nonzero_any_scalar(const struct kernel_args *args)
{
    const struct nonzero_params *p = args->params;
    if (args->begin == args->end)
        return;
    const struct scan scan = scan_of(p->item);
    const uint8_t *x = args->src[0];
    int64_t *y = args->dst[NONZERO_Y], *count = args->dst[NONZERO_COUNT];
    const int64_t elements = atc_product(p->dims, p->rank);
    const int64_t last = p->rank - 1, row = p->rank > 0 ? p->dims[last] : 1;
    const bool is_float = p->is_float != 0;
    int64_t found = 0, next = 0, row_begin = 0, index[ATC_MAX_RANK] = {0};
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, elements);)
        found += scan.count(x + piece.begin * p->item, piece.end - piece.begin, is_float);
    *count = found;
    struct atc_meter meter = {.args = args};
    if (atc_was_stopped(args))
        return;
    for (int64_t at = 0; at < elements && next < found; at += SCANNED) {
        int16_t positions[SCANNED];
        if (atc_spend(&meter, SCANNED))
            return;
        const int64_t n =
            scan.list(x + at * p->item, min_i64(SCANNED, elements - at), is_float, positions);
        for (int64_t k = 0; k < n && next < found; k++, next++) {
            for (; at + positions[k] - row_begin >= row; row_begin += row)
                for (int64_t i = last - 1; i >= 0 && ++index[i] == p->dims[i]; i--)
                    index[i] = 0;
            index[last > 0 ? last : 0] = at + positions[k] - row_begin;
            for (int64_t i = 0; i < p->rank; i++)
                y[i * found + next] = index[i];
        }
    }
}
