/* interp on AVX2. */
#include "signal/interp_loops.h"

void interp_f32_avx2(const struct kernel_args *args)
{
    interp_f32(args);
}
