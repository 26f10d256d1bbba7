/* unpool, plainly. */
#include "pooling/unpool.h"

#include <string.h>

void unpool_any_scalar(const struct kernel_args *args)
{
    const struct unpool_params *p = args->params;
    const int64_t *indices = args->src[UNPOOL_INDICES], *in = p->in, *out = p->out;
    const int64_t places = p->planes * in[0] * in[1] * in[2];
    const uint8_t *x = args->src[UNPOOL_X];
    uint8_t *y = args->dst[0];
    if (args->begin >= args->end)
        return;
    memset(y, 0, (size_t)(p->planes * out[0] * out[1] * out[2] * p->item));
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t at = indices[i];
        if (at < 0 || at >= places) {
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, at, places);
            return;
        }
        const int64_t w = at % in[2], rows = at / in[2], h = rows % in[1], slices = rows / in[1];
        const int64_t d = slices % in[0], plane = slices / in[0];
        const int64_t to = ((plane * out[0] + d) * out[1] + h) * out[2] + w;
        memcpy(y + to * p->item, x + i * p->item, (size_t)p->item);
    }
}
