/* The row of interp on float32. */
#include "signal/interp_loops.h"

void FOR_ISA(interp_f32)(const struct kernel_args *args)
{
    interp_f32(args);
}
