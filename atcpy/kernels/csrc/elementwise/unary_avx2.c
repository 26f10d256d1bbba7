/* unary on float32, AVX2. */
#include "simd/activation_avx2.h"
#include "elementwise/unary_simd.h"

void unary_f32_avx2(const struct kernel_args *args)
{
    unary_items(args);
}
