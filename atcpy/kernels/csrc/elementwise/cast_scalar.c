/* cast between all types. */
#include "elementwise/cast_loops.h"

void cast_any_scalar(const struct kernel_args *args)
{
    cast_items(args);
}
