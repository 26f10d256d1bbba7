/* convnd, plainly. */
#include "conv/convnd_loops.h"

void convnd_f32_scalar(const struct kernel_args *args)
{
    convnd_f32(args);
}

void convnd_f64_scalar(const struct kernel_args *args)
{
    convnd_f64(args);
}
