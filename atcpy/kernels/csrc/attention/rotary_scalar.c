/* rotary, plainly. */
#include "attention/rotary.h"

void rotary_f32_scalar(const struct kernel_args *args)
{
    const struct rotary_params *p = args->params;
    const int64_t each = rotary_heads_per_item(p), all = p->batch * p->heads * p->rows;
    const int64_t end = min_i64(args->end * each, all);
    for (int64_t number = args->begin * each; number < end; number++) {
        const struct rotary_row row = rotary_row_at(args, number);
        rotary_pairs(args, &row, 0);
        rotary_rest(args, &row);
    }
}
