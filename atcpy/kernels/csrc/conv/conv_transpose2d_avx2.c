/* conv_transpose2d with the micro-kernels of conv2d_avx2.c. */
#include "conv/conv_transpose2d.h"

void conv_transpose2d_f32_avx2(const struct kernel_args *args)
{
    conv_transpose2d_drive(args, &conv2d_isa_avx2);
}
