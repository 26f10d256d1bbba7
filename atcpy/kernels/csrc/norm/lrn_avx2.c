/* lrn on float32, AVX2. */
#include "simd/simd_avx2.h"
/* The body needs the names above. */
#include "norm/lrn_vector.h"

void lrn_f32_avx2(const struct kernel_args *args)
{
    lrn_items(args);
}
