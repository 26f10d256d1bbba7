/* The convnd family: its checker and its cut into blocks of results. */
#include "conv/convnd.h"

static const char *check(const struct task_view *task)
{
    const struct convnd_params *p = task->params;
    if (task->n_src < 2 || task->n_src > CONVND_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->n, p->group, p->mg) || !ATC_SIZES_OK(0, p->cg) ||
        !atc_sizes_ok(p->in, CONVND_DIMS, 1) || !atc_sizes_ok(p->out, CONVND_DIMS, 1) ||
        !atc_sizes_ok(p->kernel, CONVND_DIMS, 1) || !atc_sizes_ok(p->stride, CONVND_DIMS, 1) ||
        !atc_sizes_ok(p->dilation, CONVND_DIMS, 1) || !atc_sizes_ok(p->pad, CONVND_DIMS, 0))
        return "a size is out of range";
    if (p->transposed != 0 && p->transposed != 1)
        return "transposed is neither 0 nor 1";
    for (int i = 0; i < CONVND_DIMS; i++) {
        const int64_t positions = p->transposed ? p->in[i] : p->out[i];
        if (atc_add(atc_mul(positions, p->stride[i]), atc_mul(p->kernel[i], p->dilation[i])) >=
            ATC_TOO_BIG)
            return "the windows reach too far";
    }
    /* Without input channels, no operand bounds these. */
    if (atc_volume(p->in) >= ATC_TOO_BIG || atc_volume(p->kernel) >= ATC_TOO_BIG)
        return "a size is out of range";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[CONVND_X].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype), m = atc_mul(p->group, p->mg);
    const int64_t c = atc_mul(p->group, p->cg);
    if (!atc_holds(task, task->src + CONVND_X, dtype, atc_mul(atc_mul(p->n, c), atc_volume(p->in)),
                   item) ||
        !atc_holds(task, task->src + CONVND_W, dtype,
                   atc_mul(atc_mul(m, p->cg), atc_volume(p->kernel)), item) ||
        !atc_holds(task, task->dst, dtype, atc_mul(atc_mul(p->n, m), atc_volume(p->out)), item) ||
        !atc_holds_optional(task, CONVND_BIAS, dtype, m, item))
        return "an operand is too small or of another type";
    return NULL;
}

/* Each result meets each tap; of a transposed one each element of x does. */
static int64_t products(const void *params)
{
    const struct convnd_params *p = params;
    const int64_t channels = atc_mul(atc_mul(p->n, p->group), atc_mul(p->mg, p->cg));
    const int64_t meets = atc_volume(p->transposed ? p->in : p->out);
    return atc_mul(channels, atc_mul(meets, atc_volume(p->kernel)));
}

/* A row pays for itself where each packed window is shared by some channels. */
bool convnd_shares_windows(const struct task_view *task)
{
    const struct convnd_params *p = task->params;
    return p->mg >= 4;
}

/* Windows of a row lie side by side, of few taps along the row, which are found for each vector,
 * and of so many together that this pays.
 */
bool convnd_adds_rows(const struct task_view *task)
{
    enum { MIN_TAPS = 16 };
    const struct convnd_params *p = task->params;
    return !p->transposed && p->stride[2] == 1 && p->kernel[2] >= 2 &&
           p->kernel[2] <= CONVND_ROW_TAPS && atc_volume(p->kernel) >= MIN_TAPS;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct convnd_params *p = params;
    const int64_t results = atc_mul(atc_mul(p->n, atc_mul(p->group, p->mg)), atc_volume(p->out));
    const int64_t grids = convnd_grids(p, 0) * convnd_grids(p, 1) * convnd_grids(p, 2);
    return (struct kernel_cost){
        .items = p->n * p->group * grids * convnd_blocks(p),
        .work = atc_div(atc_mul(results, 1 + atc_mul(p->cg, atc_volume(p->kernel))), 4),
        .scratch = CONVND_SCRATCH};
}

DEFINE_FAMILY(convnd, CONVND_FIELDS, .check = check, .cost = cost, .products = products);
