/* depthwise2d of bfloat16 on AVX512-BF16, which rounds results in one instruction. */
#include "conv/depthwise2d_body_vector.h"

DEFINE_SLIDES(slides, BF16)

void depthwise2d_bf16_avx512bf16(const struct kernel_args *args)
{
    depthwise2d_run(args, true, slides);
}
