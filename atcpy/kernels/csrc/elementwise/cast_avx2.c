/* cast between all types, compiled for AVX2. */
#include "simd/simd_avx2.h"

#include "simd/half_simd.h"

#define CAST_HALF_SIMD
#include "elementwise/cast_loops.h"

void cast_any_avx2(const struct kernel_args *args)
{
    cast_items(args);
}
