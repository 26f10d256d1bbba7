/* lrn on float32, AVX-512. */
#include "simd_avx512.h"
/* The body needs the names above. */
#include "lrn_vector.h"

void lrn_f32_avx512f(const struct kernel_args *args)
{
    lrn_items(args);
}
