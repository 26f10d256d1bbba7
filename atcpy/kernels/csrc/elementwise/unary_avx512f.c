/* unary on float32, AVX-512. */
#include "simd/activation_avx512.h"
#include "elementwise/unary_simd.h"

void unary_f32_avx512f(const struct kernel_args *args)
{
    unary_items(args);
}
