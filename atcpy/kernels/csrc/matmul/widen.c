/* What all kernels with weights of 16 bits share. */
#include "matmul/widen.h"

const char *const weight_types[] = {"f32", "f16", "bf16", "bf16_vnni2", NULL};

bool weights_fit(const struct task_view *task, int source, int64_t type, int64_t elements)
{
    static const enum atc_dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_BF16};
    const enum atc_dtype dtype = dtypes[type];
    return atc_holds(task, task->src + source, dtype, elements, atc_item_bytes((int)dtype));
}
