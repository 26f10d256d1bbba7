/* normalize on float32, AVX2. */
#include "simd/simd_avx2.h"
/* The body needs the names above. */
#include "norm/normalize_vector.h"

void normalize_f32_avx2(const struct kernel_args *args)
{
    normalize_items(args);
}
