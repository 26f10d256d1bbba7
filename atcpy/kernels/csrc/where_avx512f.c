/* where on elements of any size, compiled for AVX-512. */
#include "where_loops.h"

void where_any_avx512f(const struct kernel_args *args)
{
    where_items(args);
}
