/* resize2d, plainly. */
#include "signal/resize2d_linear.h"

static void mix_pixels(float *dst, const float *row, const struct resize_taps *taps, int64_t n,
                       int64_t c0)
{
    mix_pixels_plainly(dst, row, taps, 0, n, c0);
}

void resize2d_f32_scalar(const struct kernel_args *args)
{
    resize2d_linear(args, mix_rows, mix_pixels);
}
