/* unary on float32, AVX-512. */
#include "activation_avx512.h"
#include "unary_simd.h"

void unary_f32_avx512f(const struct kernel_args *args)
{
    unary_items(args);
}
