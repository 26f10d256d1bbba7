/* graph_kernel by the rows of AVX-512. */
#include "simd/activation_avx512.h"
#include "graph_kernel/graph_kernel_chain.h"
#include "graph_kernel/graph_kernel_rows.h"

static void chain(const struct gk_link *links, int n_links, uint8_t *const *places, int64_t begin,
                  int64_t end)
{
    chain_run(links, n_links, places, begin, end);
}

void graph_kernel_any_avx512f(const struct kernel_args *args)
{
    static const struct gk_routines routines = {unary_f32_avx512f,
                                                reduce_f32_avx512f,
                                                cast_any_avx512f,
                                                classify_any_avx512f,
                                                binary_run_avx512f,
                                                where_run_avx512f,
                                                chain,
                                                chain_spread};
    gk_run(args, &routines);
}
