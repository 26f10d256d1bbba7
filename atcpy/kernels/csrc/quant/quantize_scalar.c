/* quantize and dequantize, plainly. */
#include "quant/quantize_loops.h"

void quantize_any_scalar(const struct kernel_args *args)
{
    quantize_drive(args, quantizers, true);
}

void dequantize_any_scalar(const struct kernel_args *args)
{
    quantize_drive(args, dequantizers, false);
}
