/* qdepthwise, plainly. */
#include "quant/qdepthwise_loops.h"
#include "quant/qgemm_finish.h"

static void micro(const struct qdw_windows *w, const struct qgemm_tile *tile)
{
    for (int r = 0; r < w->results; r++) {
        int32_t sums[QDW_C0];
        for (int i = 0; i < QDW_C0; i++) {
            uint32_t sum = 0;
            for (int64_t t = 0; t < w->taps; t++) {
                const uint32_t x = w->in[r * w->step + w->offsets[t] + i];
                const uint32_t weight = w->weights[t * QDW_C0 + i];
                const int32_t low = (int32_t)(x & 0xffff) * (int16_t)(weight & 0xffff);
                const int32_t high = (int32_t)(x >> 16) * (int16_t)(weight >> 16);
                sum += (uint32_t)low + (uint32_t)high;
            }
            sums[i] = (int32_t)sum;
        }
        qgemm_finish(tile, sums, r, 0, 1);
    }
}

void qdepthwise_any_scalar(const struct kernel_args *args)
{
    qdepthwise_items(args, &(struct qdw_isa){.pairs = micro});
}
