/* recurrent on float32, AVX2. */
#include "simd/activation_avx2.h"

enum { REC_TILE = 2 };
#include "recurrent/recurrent_simd.h"

void recurrent_f32_avx2(const struct kernel_args *args)
{
    recurrent_items(args);
}
