/* cast between all types, compiled for AVX2. */
#include "cast_loops.h"

void cast_any_avx2(const struct kernel_args *args)
{
    cast_items(args);
}
