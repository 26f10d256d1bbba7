/* convnd on AVX-512. */
#include "conv/convnd_loops.h"

void convnd_f32_avx512f(const struct kernel_args *args)
{
    convnd_f32(args);
}

void convnd_f64_avx512f(const struct kernel_args *args)
{
    convnd_f64(args);
}
