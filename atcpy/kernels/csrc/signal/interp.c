/* The interp family: its checker, its cut into rows, and its tables. */
#include "signal/interp.h"

const char *const interp_sums_names[] = {"cut", "nearest", "cut_f32", NULL};

static int64_t table_entries(const struct interp_params *p)
{
    int64_t all = 0;
    for (int i = 0; i < INTERP_DIMS; i++)
        all = atc_add(all, atc_mul(p->out[i], p->taps[i]));
    return all;
}

static bool weights_fit(const struct task_view *task, enum atc_dtype dtype, enum interp_sums sums,
                        int64_t entries)
{
    const struct atc_slot *weights = task->src + INTERP_WEIGHTS;
    switch (dtype) {
    case DTYPE_F32:
        return sums == INTERP_CUT && atc_holds(task, weights, DTYPE_F32, entries, 4);
    case DTYPE_F64:
        return sums == INTERP_CUT && atc_holds(task, weights, DTYPE_F64, entries, 8);
    case DTYPE_I8:
    case DTYPE_U8:
    case DTYPE_I16:
    case DTYPE_U16:
        if (sums == INTERP_CUT_F32)
            return atc_holds(task, weights, DTYPE_F32, entries, 4);
        return atc_holds(task, weights, DTYPE_F64, entries, 8);
    case DTYPE_I32:
    case DTYPE_I64:
        return sums != INTERP_CUT_F32 && atc_holds(task, weights, DTYPE_F64, entries, 8);
    default:
        return false;
    }
}

bool interp_mixes(const struct task_view *task)
{
    return task->n_src > INTERP_WEIGHTS && task->src[INTERP_WEIGHTS].region != REGION_NONE;
}

static const char *check(const struct task_view *task)
{
    const struct interp_params *p = task->params;
    const int64_t counts[] = {p->outer, p->inner};
    if (task->n_src < 2 || task->n_src > INTERP_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(counts, 2, 1) || !atc_sizes_ok(p->in, INTERP_DIMS, 1) ||
        !atc_sizes_ok(p->out, INTERP_DIMS, 1) || !atc_sizes_ok(p->taps, INTERP_DIMS, 1))
        return "a size is out of range";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8)
        return "items are of an unknown size";
    const int64_t entries = table_entries(p), images = atc_mul(p->outer, p->inner);
    if (!atc_holds(task, task->src + INTERP_INDICES, DTYPE_I32, entries, 4))
        return "a table is too small";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[INTERP_X].dtype;
    if (!interp_mixes(task)) {
        if (atc_product(p->taps, INTERP_DIMS) != 1)
            return "weights are missing";
    } else if (!weights_fit(task, dtype, (enum interp_sums)p->sums, entries) ||
               atc_item_bytes(dtype) != p->item || task->dst[0].dtype != dtype)
        return "weights do not fit the type";
    if (!atc_holds(task, task->src + INTERP_X, DTYPE_ANY,
                   atc_mul(images, atc_product(p->in, INTERP_DIMS)), p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, atc_mul(images, atc_product(p->out, INTERP_DIMS)),
                   p->item))
        return "an operand is too small";
    return NULL;
}

/* An item is a row of results along the last dim; the scratch holds a mixed row of the input, or
 * the sums of a row of results, in doubles at most.
 */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct interp_params *p = params;
    const int last = INTERP_DIMS - 1;
    int64_t rows = atc_mul(p->outer, p->inner), taps = 1;
    for (int i = 0; i < last; i++) {
        rows = atc_mul(rows, p->out[i]);
        taps = atc_mul(taps, p->taps[i]);
    }
    const int64_t row = p->in[last] > p->out[last] ? p->in[last] : p->out[last];
    const int64_t mixed = atc_mul(taps, row);
    return (struct kernel_cost){
        .items = p->outer * p->out[0] * p->out[1] * p->out[2] * p->out[3],
        .work = atc_mul(rows, atc_add(mixed, atc_mul(p->out[last], p->taps[last]))),
        .scratch = atc_mul(atc_mul(row, p->inner), 8)};
}

DEFINE_FAMILY(interp, INTERP_FIELDS, .check = check, .cost = cost);

/* Where each dim's table begins. */
static void find_tables(const struct interp_params *p, int64_t starts[INTERP_DIMS])
{
    starts[0] = 0;
    for (int i = 1; i < INTERP_DIMS; i++)
        starts[i] = starts[i - 1] + p->out[i - 1] * p->taps[i - 1];
}

static bool taps_ok(const struct kernel_args *args, int dim, const int32_t *indices)
{
    const struct interp_params *p = args->params;
    for (int64_t tap = 0; tap < p->taps[dim] && indices[0] != -1; tap++)
        if (indices[tap] < 0 || indices[tap] >= p->in[dim]) {
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, indices[tap], p->in[dim]);
            return false;
        }
    return true;
}

/* Whether n indices of one tap each are below `size` or −1, by vectors. */
static bool single_taps_ok(const int32_t *indices, int64_t n, int64_t size)
{
    uint32_t most = 0;
    for (int64_t o = 0; o < n; o++) {
        const uint32_t after = (uint32_t)indices[o] + 1;
        most = after > most ? after : most;
    }
    return most <= min_i64(size, INT64_C(1) << 31);
}

bool interp_tables_ok(const struct kernel_args *args)
{
    enum { CHECKED_AT_ONCE = 4096 };
    const struct interp_params *p = args->params;
    struct atc_meter meter = {.args = args};
    int64_t starts[INTERP_DIMS], rows = 1; /* that follow each other with one index of the dim */
    find_tables(p, starts);
    for (int i = INTERP_DIMS - 1; i >= 0; i--) {
        const bool is_last = i == INTERP_DIMS - 1;
        const int64_t first = is_last ? 0 : args->begin / rows;
        const int64_t end = is_last ? p->out[i] : (args->end - 1) / rows + 1;
        const int64_t count = min_i64(end - first, p->out[i]);
        const int32_t *table = (const int32_t *)args->src[INTERP_INDICES] + starts[i];
        for (int64_t o = first, n; o < first + count; o += n) {
            const int64_t at = o % p->out[i];
            const int32_t *indices = table + at * p->taps[i];
            n = min_i64(min_i64(first + count - o, p->out[i] - at), CHECKED_AT_ONCE);
            if (atc_spend(&meter, n))
                return false;
            if (p->taps[i] == 1 && single_taps_ok(indices, n, p->in[i]))
                continue;
            for (int64_t k = 0; k < n && !atc_spend(&meter, p->taps[i]); k++)
                if (!taps_ok(args, i, indices + k * p->taps[i]))
                    return false;
        }
        rows *= is_last ? 1 : p->out[i];
    }
    return !atc_was_stopped(args);
}

struct interp_row interp_row_at(const struct kernel_args *args, int64_t item)
{
    const struct interp_params *p = args->params;
    const int32_t *table = args->src[INTERP_INDICES];
    struct interp_row row = {.is_fill = false};
    int64_t starts[INTERP_DIMS];
    find_tables(p, starts);
    int64_t at = item;
    for (int i = INTERP_DIMS - 1; i >= 0; i--) {
        const int64_t o = i == INTERP_DIMS - 1 ? 0 : at % p->out[i];
        at = i == INTERP_DIMS - 1 ? at : at / p->out[i];
        row.at[i] = o;
        row.first_weight[i] = starts[i] + o * p->taps[i];
        row.indices[i] = table + row.first_weight[i];
        row.is_fill |= i < INTERP_DIMS - 1 && *row.indices[i] == -1;
    }
    row.x = at * p->in[0] * p->in[1] * p->in[2] * p->in[3] * p->in[4] * p->inner;
    return row;
}
