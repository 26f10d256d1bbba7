/* conv_transpose2d with the micro-kernels of conv2d_scalar.c. */
#include "conv/conv_transpose2d.h"

void conv_transpose2d_f32_scalar(const struct kernel_args *args)
{
    conv_transpose2d_drive(args, &conv2d_isa_scalar);
}
