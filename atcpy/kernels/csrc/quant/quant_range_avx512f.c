/* quant_range, compiled for AVX-512. */
#include "quant/quant_range_loops.h"

void quant_range_f32_avx512f(const struct kernel_args *args)
{
    range_of(args);
}
