/* binary on float32, AVX2. */
#include "simd_avx2.h"
#include "binary_simd.h"

void binary_f32_avx2(const struct kernel_args *args)
{
    binary_items(args);
}
