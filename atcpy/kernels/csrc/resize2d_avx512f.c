/* resize2d, for AVX-512. */
#include "resize2d_linear.h"

void resize2d_f32_avx512f(const struct kernel_args *args)
{
    resize2d_linear(args, mix_rows, mix_pixels);
}
