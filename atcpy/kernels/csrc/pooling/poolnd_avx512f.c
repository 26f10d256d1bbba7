/* poolnd on AVX-512. */
#include "pooling/poolnd_loops.h"

void poolnd_f32_avx512f(const struct kernel_args *args)
{
    poolnd_f32(args);
}

void poolnd_f64_avx512f(const struct kernel_args *args)
{
    poolnd_f64(args);
}
