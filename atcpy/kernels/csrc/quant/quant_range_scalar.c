/* quant_range, plainly. */
#include "quant/quant_range_loops.h"

void quant_range_f32_scalar(const struct kernel_args *args)
{
    range_of(args);
}
