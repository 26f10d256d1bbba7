/* resize2d, plainly. */
#include "resize2d_linear.h"

void resize2d_f32_scalar(const struct kernel_args *args)
{
    resize2d_linear(args, mix_rows, mix_pixels);
}

void resize2d_any_scalar(const struct kernel_args *args)
{
    resize2d_nearest(args);
}
