/* where on elements of any size. */
#include "where_loops.h"

void where_any_scalar(const struct kernel_args *args)
{
    where_items(args);
}
