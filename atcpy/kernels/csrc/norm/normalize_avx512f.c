/* normalize on float32, AVX-512. */
#include "simd/simd_avx512.h"
/* The body needs the names above. */
#include "norm/normalize_vector.h"

void normalize_f32_avx512f(const struct kernel_args *args)
{
    normalize_items(args);
}
