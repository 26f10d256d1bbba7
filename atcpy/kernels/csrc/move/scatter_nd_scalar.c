/* scatter_nd, plainly. */
#include "move/scatter_nd.h"

#include "move/combine.h"
#include "core/index.h"

/* The row that index number k names, or -1 after noting a fault. */
static int64_t row_of(const struct kernel_args *args, int64_t k)
{
    const struct scatter_nd_params *p = args->params;
    int64_t row = 0;
    for (int64_t i = 0; i < p->depth; i++) {
        const int64_t index =
            atc_read_index(args->src[SCATTER_ND_INDICES], k * p->depth + i, p->index_item);
        const int64_t place = atc_place_of(args->fault, index, p->dims[i]);
        if (place < 0)
            return -1;
        row = row * p->dims[i] + place;
    }
    return row;
}

void scatter_nd_any_scalar(const struct kernel_args *args)
{
    const struct scatter_nd_params *p = args->params;
    const combine_row combine = combine_of(p->dtype);
    const int64_t first = args->begin * SCATTER_ND_CHUNK;
    const int64_t columns = min_i64(args->end * SCATTER_ND_CHUNK, p->inner) - first;
    for (int64_t k = 0; k < p->count; k++) {
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
