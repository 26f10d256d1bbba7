/* cast between all types, compiled for AVX-512. */
#include "cast_loops.h"

void cast_any_avx512f(const struct kernel_args *args)
{
    cast_items(args);
}
