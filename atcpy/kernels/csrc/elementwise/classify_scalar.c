/* classify by its definition. */
#include "elementwise/classify_loops.h"

void classify_any_scalar(const struct kernel_args *args)
{
    classify_items(args);
}
