/* byte_table, plainly. */
#include "quant/byte_table.h"

void byte_table_any_scalar(const struct kernel_args *args)
{
    const struct byte_table_params *p = args->params;
    const uint8_t *x = args->src[0], *table = args->src[1];
    uint8_t *y = args->dst[0];
    const int64_t end = min_i64(args->end * BYTE_TABLE_CHUNK, p->n);
    for (int64_t i = args->begin * BYTE_TABLE_CHUNK; i < end; i++)
        y[i] = table[x[i]];
}
