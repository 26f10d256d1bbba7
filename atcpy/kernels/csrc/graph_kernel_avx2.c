/* graph_kernel by the rows of avx2. */
#include "graph_kernel_rows.h"

void graph_kernel_any_avx2(const struct kernel_args *args)
{
    static const struct gk_routines routines = {unary_f32_avx2,    reduce_f32_avx2, cast_any_avx2,
                                                classify_any_avx2, binary_run_avx2, where_run_avx2};
    gk_run(args, &routines);
}
