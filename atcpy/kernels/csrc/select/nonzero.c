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

/* The sign of a float says nothing about being zero. */
#define DEFINE_SIZE(type)                                                                          \
    static bool is_set_##type(const uint8_t *x, int64_t at, bool is_float)                         \
    {                                                                                              \
        type bits;                                                                                 \
        memcpy(&bits, x + at * (int64_t)sizeof bits, sizeof bits);                                 \
        return (is_float ? (type)(bits << 1) : bits) != 0;                                         \
    }

DEFINE_SIZE(uint8_t)
DEFINE_SIZE(uint16_t)
DEFINE_SIZE(uint32_t)
DEFINE_SIZE(uint64_t)

typedef bool (*is_set)(const uint8_t *x, int64_t at, bool is_float);

static is_set test_of(int64_t item)
{
    return item == 1   ? is_set_uint8_t
           : item == 2 ? is_set_uint16_t
           : item == 4 ? is_set_uint32_t
                       : is_set_uint64_t;
}

void nonzero_any_scalar(const struct kernel_args *args)
{
    const struct nonzero_params *p = args->params;
    if (args->begin == args->end)
        return;
    const is_set test = test_of(p->item);
    const uint8_t *x = args->src[0];
    int64_t *y = args->dst[NONZERO_Y], *count = args->dst[NONZERO_COUNT];
    const int64_t elements = atc_product(p->dims, p->rank);
    int64_t found = 0, next = 0, index[ATC_MAX_RANK] = {0};
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, elements);)
        for (int64_t at = piece.begin; at < piece.end; at++)
            found += test(x, at, p->is_float != 0);
    *count = found;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, elements);)
        for (int64_t at = piece.begin; at < piece.end && next < found; at++) {
            if (test(x, at, p->is_float != 0)) {
                for (int64_t i = 0; i < p->rank; i++)
                    y[i * found + next] = index[i];
                next++;
            }
            for (int64_t i = p->rank - 1; i >= 0 && ++index[i] == p->dims[i]; i--)
                index[i] = 0;
        }
}
