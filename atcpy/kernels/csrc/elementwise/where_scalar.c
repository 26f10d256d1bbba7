/* where on elements of any size. */
#include "elementwise/where_loops.h"

void where_any_scalar(const struct kernel_args *args)
{
    where_items(args);
}

void where_run_scalar(int64_t item, const void *condition, const void *a, const void *b, void *dst,
                      int64_t n, const int64_t *moves)
{
    where_run(item, condition, a, b, dst, n, moves);
}
