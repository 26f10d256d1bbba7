/* The normalize family: its checker and its cut into rows. */
#include "norm/normalize.h"

const char *const normalize_kinds[] = {"layer", "rms", NULL};

/* The terms of a sum, and its indices. */
static const char *check_terms(const struct task_view *task, enum atc_dtype dtype, int64_t item)
{
    const struct normalize_params *p = task->params;
    if (p->run != 1 || p->period != 1)
        return "a sum is of rows alone";
    if (!atc_sizes_ok(p->lines, NORM_TERMS, 0) || !atc_sizes_ok(p->numbers, NORM_TERMS, 0))
        return "a size is out of range";
    for (int t = 0; t < NORM_TERMS; t++) {
        const struct atc_slot *term = task->src + norm_term(t);
        const struct atc_slot *indices = task->src + NORM_INDICES + t;
        if ((term->region != REGION_NONE) != (p->lines[t] > 0) ||
            (indices->region != REGION_NONE) != (p->numbers[t] > 0) ||
            (p->numbers[t] > 0 && p->lines[t] == 0))
            return "a term or its indices are missing";
        if (p->numbers[t] > 0 && atc_same_memory(term, task->dst))
            return "rows that indices name lie where others are written";
        if (p->lines[t] > 0 && !atc_holds(task, term, dtype, atc_mul(p->lines[t], p->n), item))
            return "a term is too small or of another type";
        if (p->numbers[t] > 0 &&
            (!atc_is_index(indices, p->index_item[t]) ||
             !atc_holds(task, indices, DTYPE_ANY, p->numbers[t], p->index_item[t])))
            return "indices are too small or neither int32 nor int64";
    }
    return NULL;
}

static const char *check(const struct task_view *task)
{
    const struct normalize_params *p = task->params;
    const bool is_sum = p->lines[0] != 0;
    if (task->n_src != (is_sum ? NORM_SUM_OPERANDS : NORM_OPERANDS) || task->n_dst < 1 ||
        task->n_dst > (is_sum ? NORM_RESULTS : 1))
        return "wrong number of operands";
    const enum atc_dtype dtype = task->src[NORM_X].dtype;
    const int64_t item = atc_item_bytes((int)dtype);
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "x is neither float32 nor float64";
    if (!ATC_SIZES_OK(1, p->rows, p->n, p->run, p->period))
        return "a size is out of range";
    if (p->n % p->run != 0)
        return "the runs do not fill a row";
    const int64_t elements = atc_mul(p->rows, p->n), entries = atc_mul(p->period, p->n / p->run);
    if (!is_sum && !atc_holds(task, task->src + NORM_X, dtype, elements, item))
        return "x is too small or of another type";
    for (int i = 0; i < task->n_dst; i++)
        if (!atc_holds(task, task->dst + i, dtype, elements, item))
            return "a result is too small or of another type";
    for (int i = NORM_SCALE; i < NORM_OPERANDS; i++)
        if (!atc_holds_optional(task, i, dtype, entries, item))
            return "scale or bias is too small or of another type";
    return is_sum ? check_terms(task, dtype, item) : NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct normalize_params *p = params;
    enum { ROW_WORK = 96 }; /* of a root and some quotients */
    const int64_t elements = atc_mul(p->rows, p->lines[0] != 0 ? 2 * p->n : p->n);
    return (struct kernel_cost){.items = p->rows,
                                .work = atc_add(elements, atc_mul(p->rows, ROW_WORK))};
}

DEFINE_FAMILY(normalize, NORMALIZE_FIELDS, .check = check, .cost = cost, .inplace = 1);
