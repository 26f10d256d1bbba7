/* conv_transpose2d with the micro-kernels of conv2d_avx512f.c. */
#include "conv/conv_transpose2d.h"

void conv_transpose2d_f32_avx512f(const struct kernel_args *args)
{
    conv_transpose2d_drive(args, &conv2d_isa_avx512f);
}
