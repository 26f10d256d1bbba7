/* classify by its definition. */
#include "classify_loops.h"

void classify_any_scalar(const struct kernel_args *args)
{
    classify_items(args);
}
