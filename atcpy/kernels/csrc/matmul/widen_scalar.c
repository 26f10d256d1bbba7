/* Widening of weights, by the bits. */
#include "matmul/widen.h"

void widen_scalar(enum weight_type type, const uint16_t *src, const float *scale, float *dst,
                  int64_t n)
{
    if (type == WEIGHTS_BF16_VNNI2)
        for (int64_t i = 0; i < n; i++) {
            const int64_t row = i / WIDEN_LANES, column = i % WIDEN_LANES;
            dst[i] = f32_of_bf16(src[row / 2 * 2 * WIDEN_LANES + 2 * column + row % 2]);
        }
    else if (type == WEIGHTS_BF16)
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_of_bf16(src[i]);
    else
        for (int64_t i = 0; i < n; i++)
            dst[i] = f32_of_f16(src[i]);
    if (scale != NULL)
        for (int64_t i = 0; i < n; i++)
            dst[i] *= scale[i % WIDEN_LANES];
}
