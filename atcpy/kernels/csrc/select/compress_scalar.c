/* compress, plainly. */
#include "select/compress.h"

#include <string.h>

void compress_any_scalar(const struct kernel_args *args)
{
    const struct compress_params *p = args->params;
    if (args->begin == args->end)
        return;
    const uint8_t *condition = args->src[COMPRESS_CONDITION], *x = args->src[COMPRESS_X];
    uint8_t *y = args->dst[COMPRESS_Y];
    int64_t *count = args->dst[COMPRESS_COUNT];
    const size_t bytes = (size_t)(p->inner * p->item);
    *count = 0;
    for (int64_t i = 0; i < p->conditions; i++) {
        if (condition[i] == 0)
            continue;
        if (i >= p->n) {
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, i, p->n);
            return;
        }
        (*count)++;
    }
    if (bytes == 0)
        return;
    const int64_t known = min_i64(p->conditions, p->n);
    for (int64_t outer = 0; outer < p->outer; outer++, x += (size_t)p->n * bytes) {
        for (int64_t i = 0; i < known; i++) {
            if (condition[i] == 0)
                continue;
            memcpy(y, x + (size_t)i * bytes, bytes);
            y += bytes;
        }
    }
}
