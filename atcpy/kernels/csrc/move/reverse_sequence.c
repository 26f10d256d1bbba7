/* The reverse_sequence family: its checker; an item is one row of `inner` elements. */
#include "move/reverse_sequence.h"
#include "core/index.h"

DESCRIBE_PARAMS(reverse_sequence, REVERSE_SEQUENCE_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct reverse_sequence_params *p = task->params;
    const int64_t sizes[] = {p->steps, p->batches, p->inner};
    if (task->n_src != REVERSE_SEQUENCE_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(sizes, 3, 0))
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    if (p->batch_first != 0 && p->batch_first != 1)
        return "batch_first is neither 0 nor 1";
    const int64_t elements = atc_mul(atc_mul(p->steps, p->batches), p->inner);
    if (!atc_holds(task->src + REVERSE_SEQUENCE_X, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task->src + REVERSE_SEQUENCE_LENS, DTYPE_I64, p->batches, 8) ||
        !atc_holds(task->dst, DTYPE_ANY, elements, p->item))
        return "an operand is too small or of a wrong type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct reverse_sequence_params *p = params;
    return p->inner == 0 ? 0 : p->steps * p->batches;
}

static int64_t work(const void *params)
{
    const struct reverse_sequence_params *p = params;
    return atc_mul(atc_mul(p->steps, p->batches), 4 + atc_mul(p->inner, p->item) / 8);
}

const struct kernel_family family_reverse_sequence = {
    .name = "reverse_sequence",
    .fields = reverse_sequence_fields,
    .check = check,
    .items = items,
    .work = work,
};
