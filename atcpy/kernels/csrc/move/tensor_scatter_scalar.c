/* tensor_scatter, plainly: the rows before the end of the cache, then those from its start. */
#include "move/tensor_scatter.h"

#include <string.h>

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
        memcpy(cache + begin * row, update, (size_t)(before * row));
        memcpy(cache, update + before * row, (size_t)((p->count - before) * row));
    }
}
