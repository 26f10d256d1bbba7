/* qbinary, compiled for AVX2. */
#include "quant/qbinary_loops.h"

void qbinary_any_avx2(const struct kernel_args *args)
{
    qbinary_items(args);
}
