/* binary on float32, AVX-512. */
#include "simd/simd_avx512.h"
#include "elementwise/binary_simd.h"

void binary_f32_avx512f(const struct kernel_args *args)
{
    binary_items(args);
}

void binary_run_avx512f(enum binary_op op, const void *a, const void *b, void *dst, int64_t n,
                        bool a_moves, bool b_moves)
{
    binary_run(op, a, b, dst, n, a_moves, b_moves);
}
