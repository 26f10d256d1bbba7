/* where on elements of any size, compiled for AVX2. */
#include "where_loops.h"

void where_any_avx2(const struct kernel_args *args)
{
    where_items(args);
}
