/* binary on float32, AVX-512. */
#include "simd_avx512.h"
#include "binary_simd.h"

void binary_f32_avx512f(const struct kernel_args *args)
{
    binary_items(args);
}
