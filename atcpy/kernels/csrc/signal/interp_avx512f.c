/* interp on AVX-512. */
#include "signal/interp_loops.h"

void interp_f32_avx512f(const struct kernel_args *args)
{
    interp_f32(args);
}
