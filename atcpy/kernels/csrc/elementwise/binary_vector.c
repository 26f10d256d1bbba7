/* The rows of binary on float32 vectors. */
#include "elementwise/binary_vector.h"

void FOR_ISA(binary_f32)(const struct kernel_args *args)
{
    binary_items(args);
}

void FOR_ISA(binary_run)(enum binary_op op, const void *a, const void *b, void *dst, int64_t n,
                         bool a_moves, bool b_moves)
{
    binary_run(op, a, b, dst, n, a_moves, b_moves);
}
