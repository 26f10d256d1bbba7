/* graph_kernel by the rows of avx512f. */
#include "graph_kernel_rows.h"

void graph_kernel_any_avx512f(const struct kernel_args *args)
{
    static const struct gk_routines routines = {unary_f32_avx512f,  reduce_f32_avx512f,
                                                cast_any_avx512f,   classify_any_avx512f,
                                                binary_run_avx512f, where_run_avx512f};
    gk_run(args, &routines);
}
