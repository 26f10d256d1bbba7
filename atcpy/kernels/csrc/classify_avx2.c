/* classify, compiled for AVX2. */
#include "classify_loops.h"

void classify_any_avx2(const struct kernel_args *args)
{
    classify_items(args);
}
