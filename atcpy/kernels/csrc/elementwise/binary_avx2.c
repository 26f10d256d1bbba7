/* binary on float32, AVX2. */
#include "simd/simd_avx2.h"
#include "elementwise/binary_simd.h"

void binary_f32_avx2(const struct kernel_args *args)
{
    binary_items(args);
}

void binary_run_avx2(enum binary_op op, const void *a, const void *b, void *dst, int64_t n,
                     bool a_moves, bool b_moves)
{
    binary_run(op, a, b, dst, n, a_moves, b_moves);
}
