/* The row of unary on float32 vectors. */
#include "elementwise/unary_vector.h"

void FOR_ISA(unary_f32)(const struct kernel_args *args)
{
    unary_items(args);
}
