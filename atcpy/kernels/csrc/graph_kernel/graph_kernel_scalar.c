/* graph_kernel by the rows that any CPU has. */
#include "graph_kernel/graph_kernel_rows.h"

void graph_kernel_any_scalar(const struct kernel_args *args)
{
    static const struct gk_routines routines = {unary_f32_scalar,
                                                reduce_f32_scalar,
                                                cast_any_scalar,
                                                classify_any_scalar,
                                                NULL,
                                                where_run_scalar,
                                                NULL,
                                                NULL};
    gk_run(args, &routines);
}
