/* The rows of poolnd on floats. */
#include "pooling/poolnd_loops.h"

void FOR_ISA(poolnd_f32)(const struct kernel_args *args)
{
    poolnd_f32(args);
}

void FOR_ISA(poolnd_f64)(const struct kernel_args *args)
{
    poolnd_f64(args);
}
