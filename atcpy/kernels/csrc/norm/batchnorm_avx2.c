/* batchnorm on float32, AVX2. */
#include "simd/simd_avx2.h"
/* The body needs the names above. */
#include "norm/batchnorm_vector.h"

void batchnorm_f32_avx2(const struct kernel_args *args)
{
    batchnorm_items(args);
}
