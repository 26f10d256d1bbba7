/* batchnorm on float32, AVX-512. */
#include "simd/simd_avx512.h"
/* The body needs the names above. */
#include "norm/batchnorm_vector.h"

void batchnorm_f32_avx512f(const struct kernel_args *args)
{
    batchnorm_items(args);
}
