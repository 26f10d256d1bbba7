/* quantize and dequantize, compiled for AVX2. */
#include "quant/quantize_loops.h"

void quantize_any_avx2(const struct kernel_args *args)
{
    quantize_drive(args, quantizers, true);
}

void dequantize_any_avx2(const struct kernel_args *args)
{
    quantize_drive(args, dequantizers, false);
}
