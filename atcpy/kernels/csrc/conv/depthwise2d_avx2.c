/* depthwise2d on AVX2: a block of channels is two vectors. */
#include "simd/simd_avx2.h"

#include "simd/activation_avx2.h"

#define DW_WIDE     0
#define DW_ACTIVATE activate_avx2
#include "conv/depthwise2d_simd.h"

void depthwise2d_f32_avx2(const struct kernel_args *args)
{
    depthwise2d_run(args);
}
