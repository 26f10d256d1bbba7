/* classify, compiled for AVX2. */
#include "elementwise/classify_loops.h"

void classify_any_avx2(const struct kernel_args *args)
{
    classify_items(args);
}
