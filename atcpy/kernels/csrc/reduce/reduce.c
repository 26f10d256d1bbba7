/* The reduce family: its checker and its cut into results, or runs of neighbouring results. */
#include "reduce/reduce.h"

const char *const reduce_kinds[] = {"sum", "mean",       "max",     "min",         "prod", "l1",
                                    "l2",  "sum_square", "log_sum", "log_sum_exp", NULL};

/* Elements up to the last that is read, or 0 if none is. */
static int64_t extent(const struct reduce_params *p)
{
    int64_t last = p->inner - 1;
    for (int i = 0; i < REDUCE_DIMS; i++) {
        if (p->kept[i] == 0 || p->reduced[i] == 0)
            return 0;
        last = atc_add(last, atc_mul(p->kept[i] - 1, p->kept_stride[i]));
        last = atc_add(last, atc_mul(p->reduced[i] - 1, p->reduced_stride[i]));
    }
    return p->inner > 0 ? atc_add(last, 1) : 0;
}

static const char *check(const struct task_view *task)
{
    const struct reduce_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(p->kept, REDUCE_DIMS, 0) || !atc_sizes_ok(p->kept_stride, REDUCE_DIMS, 0) ||
        !atc_sizes_ok(p->reduced, REDUCE_DIMS, 0) ||
        !atc_sizes_ok(p->reduced_stride, REDUCE_DIMS, 0) || !ATC_SIZES_OK(0, p->inner))
        return "a size is out of range";
    /* Products of dims are taken from the left: none on the way may overflow, though one be 0. */
    int64_t results = 1, terms = 1;
    for (int i = 0; i < REDUCE_DIMS; i++) {
        results = atc_mul(results, p->kept[i]);
        terms = atc_mul(terms, p->reduced[i]);
        if (results >= ATC_TOO_BIG || terms >= ATC_TOO_BIG)
            return "too many elements";
    }
    results = atc_mul(results, p->inner);
    if (results >= ATC_TOO_BIG)
        return "too many elements";
    if (terms == 0 && p->reduced[0] != 0)
        return "an empty dim must come first"; /* so that no loop runs over nothing */
    const int dtype = task->src[0].dtype;
    if (dtype != task->dst[0].dtype || atc_item_bytes(dtype) == 0)
        return "operands differ in type, or the type is unknown";
    const bool is_float = dtype == DTYPE_F32 || dtype == DTYPE_F64;
    const bool is_wide =
        dtype == DTYPE_I32 || dtype == DTYPE_I64 || dtype == DTYPE_U32 || dtype == DTYPE_U64;
    if (!is_float && p->kind >= REDUCE_LOG_SUM)
        return "the reduction needs floats";
    if (!is_float && !is_wide && p->kind != REDUCE_MAX && p->kind != REDUCE_MIN)
        return "the reduction needs a wider type";
    if (!is_float && p->kind == REDUCE_MEAN && terms == 0)
        return "no integer is the mean of nothing";
    const int64_t item = atc_item_bytes(dtype);
    if (!atc_holds(task, task->src, DTYPE_ANY, extent(p), item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, results, item))
        return "an operand is too small";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct reduce_params *p = params;
    enum { RUN_WORK = 8 }; /* of adding up what the innermost dim gave, in double */
    const int64_t runs = p->reduced[0] * p->reduced[1] * p->reduced[2];
    return (struct kernel_cost){
        .items = reduce_product(p->kept) * ceil_div(p->inner, REDUCE_COLUMNS),
        .work = atc_mul(reduce_product(p->kept) * p->inner,
                        atc_add(reduce_product(p->reduced), atc_mul(runs, RUN_WORK)))};
}

/* Products go in double; logs of exponentials are rare. */
bool reduce_fits_vectors(const struct task_view *task);
bool reduce_fits_vectors(const struct task_view *task)
{
    const struct reduce_params *p = task->params;
    return p->kind != REDUCE_PROD && p->kind != REDUCE_LOG_SUM_EXP;
}

bool reduce_multiplies(const struct task_view *task);
bool reduce_multiplies(const struct task_view *task)
{
    const struct reduce_params *p = task->params;
    return p->kind == REDUCE_PROD;
}

/* Integers join in any order; of doubles, sums. */
bool reduce_folds(const struct task_view *task);
bool reduce_folds(const struct task_view *task)
{
    const struct reduce_params *p = task->params;
    const bool adds = p->kind == REDUCE_SUM || p->kind == REDUCE_MEAN;
    return adds ||
           (task->src[0].dtype != DTYPE_F64 && (p->kind == REDUCE_MAX || p->kind == REDUCE_MIN));
}

DEFINE_FAMILY(reduce, REDUCE_FIELDS, .check = check, .cost = cost);
