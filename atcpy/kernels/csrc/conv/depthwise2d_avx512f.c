/* depthwise2d on AVX-512: a block of channels is one vector. */
#include "simd/simd_avx512.h"

#include "simd/activation_avx512.h"

#define DW_WIDE     1
#define DW_ACTIVATE activate_avx512
#include "conv/depthwise2d_simd.h"

void depthwise2d_f32_avx512f(const struct kernel_args *args)
{
    depthwise2d_run(args);
}
