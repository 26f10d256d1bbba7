/* reverse_sequence, plainly. */
#include "move/reverse_sequence.h"

#include <string.h>

void reverse_sequence_any_scalar(const struct kernel_args *args)
{
    const struct reverse_sequence_params *p = args->params;
    const int64_t *lens = args->src[REVERSE_SEQUENCE_LENS];
    const size_t bytes = (size_t)(p->inner * p->item);
    for (int64_t row = args->begin; row < args->end; row++) {
        const int64_t batch = p->batch_first ? row / p->steps : row % p->batches;
        const int64_t step = p->batch_first ? row % p->steps : row / p->batches;
        const int64_t length = lens[batch];
        if (length < 0 || length > p->steps) {
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, length, p->steps);
            return;
        }
        const int64_t from = step < length ? length - 1 - step : step;
        const int64_t place = p->batch_first ? batch * p->steps + from : from * p->batches + batch;
        memcpy((uint8_t *)args->dst[0] + (size_t)row * bytes,
               (const uint8_t *)args->src[REVERSE_SEQUENCE_X] + (size_t)place * bytes, bytes);
    }
}
