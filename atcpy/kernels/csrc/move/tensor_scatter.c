/* tensor_scatter: rows written into a cache, at an index of its own for each batch.
 *
 *     update  [batch, groups, count, inner]
 *     begin   [batch], int64, where the first row of a batch goes; left out: 0
 *     y       [batch, groups, size, inner], holds the cache already
 *
 * Circular, a row beyond the last goes to the first; else it is a fault.
 *
 * The rows before the end of the cache, then those from its start.
 */
#include "core/index.h"
#include "core/pieces.h"

#define TENSOR_SCATTER_FIELDS(I64, I64S, F64, ENUM)                                                \
    I64(batch) I64(groups) I64(count) I64(size) I64(inner) I64(item) I64(circular)
DECLARE_PARAMS(tensor_scatter, TENSOR_SCATTER_FIELDS)

enum { TENSOR_SCATTER_UPDATE, TENSOR_SCATTER_BEGIN, TENSOR_SCATTER_OPERANDS };

static const char *check(const struct task_view *task)
{
    const struct tensor_scatter_params *p = task->params;
    if (task->n_src < 1 || task->n_src > TENSOR_SCATTER_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->batch, p->groups, p->count, p->size, p->inner) || p->count > p->size)
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    if (p->circular != 0 && p->circular != 1)
        return "circular is neither 0 nor 1";
    const int64_t rows = atc_mul(atc_mul(p->batch, p->groups), p->inner);
    if (!atc_holds(task, task->src + TENSOR_SCATTER_UPDATE, DTYPE_ANY, atc_mul(rows, p->count),
                   p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, atc_mul(rows, p->size), p->item) ||
        (task->n_src > TENSOR_SCATTER_BEGIN &&
         !atc_holds(task, task->src + TENSOR_SCATTER_BEGIN, DTYPE_I64, p->batch, 8)))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* An item is a group of a batch. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct tensor_scatter_params *p = params;
    const int64_t row_work = atc_mul(p->inner, p->item) / 8 + 1;
    return (struct kernel_cost){
        .items = p->count == 0 || p->inner == 0 ? 0 : p->batch * p->groups,
        .work = atc_mul(atc_mul(p->batch, p->groups), atc_mul(p->count, row_work))};
}

DEFINE_FAMILY(tensor_scatter, TENSOR_SCATTER_FIELDS, .check = check, .cost = cost);

void tensor_scatter_any_scalar(const struct kernel_args *args)
{
    const struct tensor_scatter_params *p = args->params;
    const int64_t *begins = args->src[TENSOR_SCATTER_BEGIN];
    const int64_t row = p->inner * p->item;
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t stated = begins == NULL ? 0 : begins[item / p->groups];
        const int64_t begin = !p->circular ? stated : (stated % p->size + p->size) % p->size;
        if (begin < 0 || (!p->circular && begin > p->size - p->count)) {
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, stated, p->size - p->count + 1);
            return;
        }
        const int64_t before = min_i64(p->count, p->size - begin);
        const uint8_t *update =
            (const uint8_t *)args->src[TENSOR_SCATTER_UPDATE] + item * p->count * row;
        uint8_t *cache = (uint8_t *)args->dst[0] + item * p->size * row;
        atc_copy(args, cache + begin * row, update, before * row);
        atc_copy(args, cache, update + before * row, (p->count - before) * row);
    }
}
