/* quant_range, compiled for AVX2. */
#include "quant/quant_range_loops.h"

void quant_range_f32_avx2(const struct kernel_args *args)
{
    range_of(args);
}
