/* gather, plainly. */
#include "move/gather.h"

#include "core/index.h"

/* The row of `data` that the index from number `first` names, or -1 after noting a fault. */
static int64_t find_row(const struct kernel_args *args, int64_t first)
{
    const struct gather_params *p = args->params;
    int64_t row = 0;
    for (int64_t i = 0; i < p->depth; i++) {
        const int64_t index = atc_read_index(args->src[GATHER_INDICES], first + i, p->index_item);
        const int64_t place = atc_place_of(args->fault, index, p->dims[i]);
        if (place < 0)
            return -1;
        row = row * p->dims[i] + place;
    }
    return row;
}

void gather_any_scalar(const struct kernel_args *args)
{
    const struct gather_params *p = args->params;
    const int64_t each = gather_rows_per_item(p), all = p->outer * p->count;
    const int64_t end = args->end * each < all ? args->end * each : all;
    const size_t bytes = (size_t)(p->inner * p->item);
    int64_t rows = 1;
    for (int64_t i = 0; i < p->depth; i++)
        rows *= p->dims[i];
    const uint8_t *data = args->src[GATHER_DATA];
    for (int64_t at = args->begin * each; at < end; at++) {
        const int64_t outer = at / p->count, k = at % p->count;
        const int64_t row = find_row(args, outer * p->index_stride + k * p->depth);
        if (row < 0)
            return;
        uint8_t *to = (uint8_t *)args->dst[0] + (size_t)at * bytes;
        const uint8_t *from = data + (size_t)(outer * rows + row) * bytes;
        if (bytes == 4)
            memcpy(to, from, 4);
        else
            memcpy(to, from, bytes);
    }
}
