/* depthwise2d on vectors. */
#include "conv/depthwise2d_body_vector.h"

DEFINE_SLIDES(slides_f32, F32)
DEFINE_SLIDES(slides_bf16, BF16)

void FOR_ISA(depthwise2d_f32)(const struct kernel_args *args)
{
    depthwise2d_run(args, false, slides_f32);
}

void FOR_ISA(depthwise2d_bf16)(const struct kernel_args *args)
{
    depthwise2d_run(args, true, slides_bf16);
}
