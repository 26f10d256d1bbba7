/* quantize and dequantize, compiled for AVX-512. */
#include "quant/quantize_loops.h"

void quantize_any_avx512f(const struct kernel_args *args)
{
    quantize_drive(args, quantizers, true);
}

void dequantize_any_avx512f(const struct kernel_args *args)
{
    quantize_drive(args, dequantizers, false);
}
