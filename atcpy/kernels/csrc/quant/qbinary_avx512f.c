/* qbinary, compiled for AVX-512. */
#include "quant/qbinary_loops.h"

void qbinary_any_avx512f(const struct kernel_args *args)
{
    qbinary_items(args);
}
