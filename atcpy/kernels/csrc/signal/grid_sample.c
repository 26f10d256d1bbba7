/* The grid_sample family: its checker and its cut into rows of the grid. */
#include "signal/grid_sample.h"

const char *const grid_mode_names[] = {"nearest", "linear", "cubic", NULL};
const char *const grid_padding_names[] = {"zeros", "border", "reflection", NULL};

DESCRIBE_PARAMS(grid_sample, GRID_SAMPLE_FIELDS)

enum { MAX_SIDE = 1 << 24 }; /* sides that float32 counts exactly */

static int64_t volume(const int64_t *dims)
{
    return atc_mul(atc_mul(dims[0], dims[1]), dims[2]);
}

static const char *check(const struct task_view *task)
{
    const struct grid_sample_params *p = task->params;
    const int64_t counts[] = {p->n, p->c};
    if (task->n_src != GRID_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(counts, 2, 1) || !atc_sizes_ok(p->in, GRID_DIMS, 1) ||
        !atc_sizes_ok(p->out, GRID_DIMS, 1))
        return "a size is out of range";
    for (int i = 0; i < GRID_DIMS; i++)
        if (p->in[i] > MAX_SIDE)
            return "a side is too long";
    if (p->dims < 2 || p->dims > GRID_DIMS || (p->dims == 2 && p->in[0] != 1))
        return "the grid has neither two nor three dims";
    if (p->align_corners != 0 && p->align_corners != 1)
        return "align_corners is neither 0 nor 1";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[GRID_X].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype), planes = atc_mul(p->n, p->c);
    const int64_t points = atc_mul(p->n, volume(p->out));
    if (!atc_holds(task->src + GRID_X, dtype, atc_mul(planes, volume(p->in)), item) ||
        !atc_holds(task->src + GRID_GRID, dtype, atc_mul(points, p->dims), item) ||
        !atc_holds(task->dst, dtype, atc_mul(planes, volume(p->out)), item))
        return "an operand is too small or of another type";
    return NULL;
}

/* An item is a row of the grid. */
static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct grid_sample_params *p = params;
    return p->n * p->out[0] * p->out[1];
}

static int64_t work(const void *params)
{
    const struct grid_sample_params *p = params;
    const int64_t taps = p->mode == GRID_CUBIC ? 64 : 8;
    return atc_mul(atc_mul(p->n, volume(p->out)), atc_add(atc_mul(p->c, taps), 64));
}

const struct kernel_family family_grid_sample = {.name = "grid_sample",
                                                 .fields = grid_sample_fields,
                                                 .check = check,
                                                 .items = items,
                                                 .work = work};
