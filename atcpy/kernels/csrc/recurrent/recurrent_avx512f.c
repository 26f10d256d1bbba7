/* recurrent on float32, AVX-512. */
#include "simd/activation_avx512.h"

enum { REC_TILE = 4 };
#include "recurrent/recurrent_simd.h"

void recurrent_f32_avx512f(const struct kernel_args *args)
{
    recurrent_items(args);
}
