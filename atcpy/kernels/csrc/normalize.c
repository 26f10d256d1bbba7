/* The normalize family: its checker and its cut into rows. */
#include "normalize.h"

const char *const normalize_kinds[] = {"layer", "rms", NULL};

DESCRIBE_PARAMS(normalize, NORMALIZE_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct normalize_params *p = task->params;
    const int64_t sizes[] = {p->rows, p->n, p->run, p->period};
    if (task->n_src != NORM_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    const enum atc_dtype dtype = task->src[NORM_X].dtype;
    const int64_t item = atc_item_bytes((int)dtype);
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "x is neither float32 nor float64";
    if (!atc_sizes_ok(sizes, 4, 1))
        return "a size is out of range";
    if (p->n % p->run != 0)
        return "the runs do not fill a row";
    const int64_t elements = atc_mul(p->rows, p->n), entries = atc_mul(p->period, p->n / p->run);
    if (!atc_holds(task->src + NORM_X, dtype, elements, item) ||
        !atc_holds(task->dst, dtype, elements, item))
        return "an operand is too small or of another type";
    for (int i = NORM_SCALE; i < NORM_OPERANDS; i++)
        if (task->src[i].region != REGION_NONE && !atc_holds(task->src + i, dtype, entries, item))
            return "scale or bias is too small or of another type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    const struct normalize_params *p = params;
    (void)cpu;
    return p->rows;
}

static int64_t work(const void *params)
{
    const struct normalize_params *p = params;
    return p->rows * p->n;
}

const struct kernel_family family_normalize = {.name = "normalize",
                                               .fields = normalize_fields,
                                               .check = check,
                                               .items = items,
                                               .work = work,
                                               .inplace = 1};
