/* trilu, plainly. */
#include "move/trilu.h"

#include <string.h>

/* i + k within [0, cols]; k may be any number. */
static int64_t clamped(int64_t i, int64_t k, int64_t cols)
{
    if (k >= cols - i)
        return cols;
    return k <= -i ? 0 : i + k;
}

void trilu_any_scalar(const struct kernel_args *args)
{
    const struct trilu_params *p = args->params;
    const int64_t *given = args->src[TRILU_K];
    const int64_t k = given == NULL ? 0 : *given;
    const int64_t each = trilu_rows_per_item(p), all = p->matrices * p->rows;
    const int64_t end = args->end * each < all ? args->end * each : all;
    const size_t row_bytes = (size_t)(p->cols * p->item);
    for (int64_t row = args->begin * each; row < end; row++) {
        const int64_t i = row % p->rows;
        /* Columns before the cut belong to the lower triangle. */
        const int64_t cut = clamped(p->upper ? i : i + 1, k, p->cols);
        const size_t before = (size_t)(cut * p->item), after = row_bytes - before;
        const uint8_t *x = (const uint8_t *)args->src[TRILU_X] + (size_t)row * row_bytes;
        uint8_t *y = (uint8_t *)args->dst[0] + (size_t)row * row_bytes;
        const size_t kept = p->upper ? before : 0;
        if (y != x)
            memcpy(y + kept, x + kept, p->upper ? after : before);
        memset(y + before - kept, 0, p->upper ? before : after);
    }
}
