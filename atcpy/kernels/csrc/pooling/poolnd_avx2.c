/* poolnd on AVX2. */
#include "pooling/poolnd_loops.h"

void poolnd_f32_avx2(const struct kernel_args *args)
{
    poolnd_f32(args);
}

void poolnd_f64_avx2(const struct kernel_args *args)
{
    poolnd_f64(args);
}
