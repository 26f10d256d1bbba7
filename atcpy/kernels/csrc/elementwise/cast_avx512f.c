/* cast between all types, compiled for AVX-512. */
#include "simd/simd_avx512.h"

#include "simd/half_simd.h"

#define CAST_HALF_SIMD
#include "elementwise/cast_loops.h"

void cast_any_avx512f(const struct kernel_args *args)
{
    cast_items(args);
}
