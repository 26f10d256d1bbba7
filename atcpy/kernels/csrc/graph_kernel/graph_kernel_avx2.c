/* graph_kernel by the rows of AVX2. */
#include "simd/activation_avx2.h"
#include "graph_kernel/graph_kernel_chain.h"
#include "graph_kernel/graph_kernel_rows.h"

static void chain(const struct gk_link *links, int n_links, uint8_t *const *places, int64_t begin,
                  int64_t end)
{
    chain_run(links, n_links, places, begin, end);
}

void graph_kernel_any_avx2(const struct kernel_args *args)
{
    static const struct gk_routines routines = {
        unary_f32_avx2,  reduce_f32_avx2, cast_any_avx2, classify_any_avx2,
        binary_run_avx2, where_run_avx2,  chain,         chain_spread};
    gk_run(args, &routines);
}
