/* qdepthwise, plainly. */
#include "qdepthwise_loops.h"

static void micro(const uint32_t *in, int64_t step, const int64_t *offsets, const uint32_t *weights,
                  int64_t taps, int results, int32_t sums[][QDW_C0])
{
    for (int r = 0; r < results; r++)
        for (int i = 0; i < QDW_C0; i++) {
            uint32_t sum = 0;
            for (int64_t t = 0; t < taps; t++) {
                const uint32_t x = in[r * step + offsets[t] + i], w = weights[t * QDW_C0 + i];
                const int32_t low = (int32_t)(x & 0xffff) * (int16_t)(w & 0xffff);
                const int32_t high = (int32_t)(x >> 16) * (int16_t)(w >> 16);
                sum += (uint32_t)low + (uint32_t)high;
            }
            sums[r][i] = (int32_t)sum;
        }
}

void qdepthwise_any_scalar(const struct kernel_args *args)
{
    qdepthwise_items(args, micro);
}
