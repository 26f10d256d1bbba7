/* gather, plainly. */
#include "gather.h"

#include <string.h>

/* The row of `data` that an index names, or -1 after noting a fault. */
static int64_t find_row(const struct kernel_args *args, const uint8_t *index)
{
    const struct gather_params *p = args->params;
    int64_t row = 0;
    for (int64_t i = 0; i < p->depth; i++) {
        int64_t at;
        if (p->index_item == 4) {
            int32_t narrow;
            memcpy(&narrow, index + i * 4, sizeof narrow);
            at = narrow;
        } else {
            memcpy(&at, index + i * 8, sizeof at);
        }
        if (at < -p->dims[i] || at >= p->dims[i]) {
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, at, p->dims[i]);
            return -1;
        }
        row = row * p->dims[i] + (at < 0 ? at + p->dims[i] : at);
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
    const uint8_t *data = args->src[GATHER_DATA], *indices = args->src[GATHER_INDICES];
    for (int64_t at = args->begin * each; at < end; at++) {
        const int64_t outer = at / p->count, k = at % p->count;
        const int64_t row =
            find_row(args, indices + (outer * p->index_stride + k * p->depth) * p->index_item);
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
