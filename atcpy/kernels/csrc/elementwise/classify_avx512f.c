/* classify, compiled for AVX-512. */
#include "elementwise/classify_loops.h"

void classify_any_avx512f(const struct kernel_args *args)
{
    classify_items(args);
}
