/* attention of bfloat16 on AVX512-BF16, whose products read pairs. */
#include "attention/attention.h"

void attention_f32_avx512bf16(const struct kernel_args *args)
{
    attention_run_avx512f(args, &matmul_isa_avx512bf16);
}
