/* pad, plainly. */
#include "move/pad.h"

#include <string.h>

/* The place of a dim that place `at` of the result shows, or -1 for the constant. */
static int64_t source_of(int64_t mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    if (mode == PAD_CONSTANT)
        return -1;
    if (mode == PAD_EDGE)
        return at < 0 ? 0 : size - 1;
    const int64_t period = mode == PAD_WRAP ? size : size == 1 ? 1 : 2 * (size - 1);
    const int64_t turned = (at % period + period) % period;
    return turned < size ? turned : period - turned;
}

/* First element of a row in x, or -1 where all of it is constant. */
static int64_t row_start(const struct pad_params *p, int64_t row)
{
    int64_t start = p->x_offset;
    for (int64_t i = p->rank - 2; i >= 0; i--) {
        const int64_t at = row % p->dims[i];
        row /= p->dims[i];
        const int64_t from = source_of(p->mode, at - p->before[i], p->sizes[i]);
        if (from < 0)
            return -1;
        start += from * p->x_strides[i];
    }
    return start;
}

void pad_any_scalar(const struct kernel_args *args)
{
    const struct pad_params *p = args->params;
    static const uint8_t zero[16];
    const int64_t last = p->rank - 1, columns = p->dims[last], item = p->item;
    const int64_t size = p->sizes[last], before = p->before[last];
    const uint8_t *value = args->src[PAD_VALUE] != NULL ? args->src[PAD_VALUE] : zero;
    int64_t rows = 1;
    for (int64_t i = 0; i < last; i++)
        rows *= p->dims[i];
    const int64_t each = pad_rows_per_item(p), end = min_i64(args->end * each, rows);
    for (int64_t row = args->begin * each; row < end; row++) {
        uint8_t *y = (uint8_t *)args->dst[0] + row * columns * item;
        const int64_t start = row_start(p, row);
        for (int64_t i = 0; i < columns; i++) {
            const int64_t from = start < 0 ? -1 : source_of(p->mode, i - before, size);
            const uint8_t *x = (const uint8_t *)args->src[PAD_X];
            memcpy(y + i * item, from < 0 ? value : x + (start + from * p->x_strides[last]) * item,
                   (size_t)item);
        }
    }
}
