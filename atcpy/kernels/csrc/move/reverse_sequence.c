/* reverse_sequence: of each batch, the first so many steps in reverse, the others as they are.
 *
 *     x, y  [steps, batches, inner], or with batch_first [batches, steps, inner]
 *     lens  [batches], int64, in [0, steps]; any other is a fault
 */
#include "core/index.h"
#include "core/pieces.h"
#include "simd/streamed.h"

#define REVERSE_SEQUENCE_FIELDS(I64, I64S, F64, ENUM)                                              \
    I64(steps) I64(batches) I64(inner) I64(item) I64(batch_first)
DECLARE_PARAMS(reverse_sequence, REVERSE_SEQUENCE_FIELDS)

enum { REVERSE_SEQUENCE_X, REVERSE_SEQUENCE_LENS, REVERSE_SEQUENCE_OPERANDS };

static const char *check(const struct task_view *task)
{
    const struct reverse_sequence_params *p = task->params;
    if (task->n_src != REVERSE_SEQUENCE_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->steps, p->batches, p->inner))
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    if (p->batch_first != 0 && p->batch_first != 1)
        return "batch_first is neither 0 nor 1";
    const int64_t elements = atc_mul(atc_mul(p->steps, p->batches), p->inner);
    if (!atc_holds(task, task->src + REVERSE_SEQUENCE_X, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task, task->src + REVERSE_SEQUENCE_LENS, DTYPE_I64, p->batches, 8) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements, p->item))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* An item is one row of `inner` elements. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct reverse_sequence_params *p = params;
    return (struct kernel_cost){
        .items = p->inner == 0 ? 0 : p->steps * p->batches,
        .work = atc_mul(atc_mul(p->steps, p->batches), 4 + atc_mul(p->inner, p->item) / 8)};
}

DEFINE_FAMILY(reverse_sequence, REVERSE_SEQUENCE_FIELDS, .check = check, .cost = cost);

/* The step that a step's row comes from. */
static int64_t source_step(int64_t step, int64_t length)
{
    return step < length ? length - 1 - step : step;
}

void reverse_sequence_any_scalar(const struct kernel_args *args)
{
    enum { FETCHED_AHEAD = 1 << 13 }; /* bytes */
    const struct reverse_sequence_params *p = args->params;
    const int64_t *lens = args->src[REVERSE_SEQUENCE_LENS];
    const uint8_t *src = args->src[REVERSE_SEQUENCE_X];
    const int64_t bytes = p->inner * p->item;
    const int64_t next = p->batch_first ? 1 : p->batches; /* rows from a step to the next one */
    const bool is_streamed =
        is_streamed_run(bytes) && p->steps * p->batches * bytes >= MIN_STREAMED;
    const int64_t ahead = is_streamed ? ceil_div(FETCHED_AHEAD, next * bytes) : 0; /* steps */
    for (int64_t row = args->begin; row < args->end; row++) {
        const int64_t batch = p->batch_first ? row / p->steps : row % p->batches;
        const int64_t step = p->batch_first ? row % p->steps : row / p->batches;
        const int64_t length = lens[batch];
        if (length < 0 || length > p->steps) {
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, length, p->steps);
            return;
        }
        uint8_t *dst = (uint8_t *)args->dst[0] + row * bytes;
        const uint8_t *first = src + (row - step * next) * bytes; /* of the batch */
        const uint8_t *from = first + source_step(step, length) * next * bytes;
        if (!is_streamed) {
            atc_copy(args, dst, from, bytes);
            continue;
        }
        /* CPUs read short rows ahead neither backwards nor of many batches. */
        if (step + ahead < p->steps) {
            const uint8_t *later = first + source_step(step + ahead, length) * next * bytes;
            for (int64_t i = 0; i < bytes; i += STREAMED_LINE)
                __builtin_prefetch(later + i);
        }
        stream_run(dst, from, bytes);
    }
    if (is_streamed)
        end_stream();
}
