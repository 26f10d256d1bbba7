/* scatter_nd: y[index(k)] = y[index(k)] ∘ updates[k], rows of `inner` elements.
 *
 *     updates  [count, inner]
 *     indices  [count, depth], int32 or int64
 *     y        [dims[0], …, dims[depth - 1], inner], holds the data already
 *
 * Updates come in the order of k, so that indices that repeat give the same on any number of
 * threads: these share the columns. A negative index counts from the end; one outside is a fault.
 */
#include "core/index.h"
#include "core/pieces.h"
#include "move/combine.h"
#include "move/combine_kind.h"

#define SCATTER_ND_FIELDS(I64, I64S, F64, ENUM)                                                    \
    ENUM(kind, scatter_nd_names)                                                                   \
    I64(count) I64(depth) I64S(dims, 8) I64(inner) I64(item) I64(index_item) I64(dtype)
DECLARE_PARAMS(scatter_nd, SCATTER_ND_FIELDS)

enum { SCATTER_ND_UPDATES, SCATTER_ND_INDICES, SCATTER_ND_OPERANDS };
enum { SCATTER_ND_CHUNK = 4096 }; /* columns of an item */

static const char *const scatter_nd_names[] = {COMBINE_NAMES, NULL};

static const char *check(const struct task_view *task)
{
    const struct scatter_nd_params *p = task->params;
    if (task->n_src != SCATTER_ND_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->count, p->inner) || !atc_dims_ok(p->dims, p->depth))
        return "a size is out of range";
    const struct atc_slot *x = task->src + SCATTER_ND_UPDATES;
    const struct atc_slot *indices = task->src + SCATTER_ND_INDICES;
    if (!atc_is_item(p->item) || !atc_is_index(indices, p->index_item))
        return "items or indices are of an unknown size";
    if (!combine_ok(p->kind, p->dtype, p->item, x, task->dst))
        return "updates of this type cannot be combined";
    if (p->count == 0 || p->inner == 0)
        return NULL;
    const int64_t elements = atc_mul(p->inner, atc_product(p->dims, p->depth));
    if (!atc_holds(task, indices, DTYPE_ANY, atc_mul(p->count, p->depth), p->index_item) ||
        !atc_holds(task, x, DTYPE_ANY, atc_mul(p->count, p->inner), p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements, p->item))
        return "an operand is too small";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct scatter_nd_params *p = params;
    const int64_t chunks = ceil_div(p->inner, SCATTER_ND_CHUNK);
    return (struct kernel_cost){.items = p->count == 0 ? 0 : chunks,
                                .work = atc_add(atc_mul(atc_mul(p->count, p->depth + 1), chunks),
                                                atc_mul(p->count, atc_mul(p->inner, p->item)) / 8)};
}

DEFINE_FAMILY(scatter_nd, SCATTER_ND_FIELDS, .check = check, .cost = cost);

/* The row that index number k names, or -1 after noting a fault. */
static int64_t row_of(const struct kernel_args *args, int64_t k)
{
    const struct scatter_nd_params *p = args->params;
    int64_t row = 0;
    for (int64_t i = 0; i < p->depth; i++) {
        const int64_t index =
            atc_read_index(args->src[SCATTER_ND_INDICES], k * p->depth + i, p->index_item);
        const int64_t position = atc_resolve_index(args->fault, index, p->dims[i]);
        if (position < 0)
            return -1;
        row = row * p->dims[i] + position;
    }
    return row;
}

void scatter_nd_any_scalar(const struct kernel_args *args)
{
    const struct scatter_nd_params *p = args->params;
    const combine_row combine = combine_of(p->dtype);
    const int64_t first = args->begin * SCATTER_ND_CHUNK;
    const int64_t columns = min_i64(args->end * SCATTER_ND_CHUNK, p->inner) - first;
    struct atc_meter meter = {.args = args};
    for (int64_t k = 0; k < p->count && !atc_spend(&meter, p->depth + columns); k++) {
        const int64_t row = row_of(args, k);
        if (row < 0)
            return;
        const uint8_t *x =
            (const uint8_t *)args->src[SCATTER_ND_UPDATES] + (k * p->inner + first) * p->item;
        uint8_t *y = (uint8_t *)args->dst[0] + (row * p->inner + first) * p->item;
        if (p->kind == COMBINE_NONE)
            memcpy(y, x, (size_t)(columns * p->item));
        else
            combine(y, x, columns, p->kind);
    }
}
