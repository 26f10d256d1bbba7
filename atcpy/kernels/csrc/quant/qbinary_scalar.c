/* qbinary, plainly. */
#include "quant/qbinary_loops.h"

void qbinary_any_scalar(const struct kernel_args *args)
{
    qbinary_items(args);
}
