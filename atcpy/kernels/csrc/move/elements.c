/* elements: GatherElements and ScatterElements: single elements named by an index along one axis.
 *
 *     x        gather: the data; scatter: the updates
 *     indices  int32 or int64
 *     y        gather: the result; scatter: holds the data already, and gets the updates
 *
 * For every index below `dims` there is a lane: `count` indices, index_step apart, and `size`
 * elements of the data, data_step apart. Gather reads data[lane][index] into y[lane][i], where y
 * lies as the indices do; scatter puts x[lane][i] to y[lane][index], in order of i. Lanes are
 * independent, so that indices that repeat give the same on any number of threads. Steps and
 * strides count elements; `dtype` is that of x where updates are combined. A negative index counts
 * from the end; one outside is a fault.
 */
#include "core/index.h"
#include "core/pieces.h"
#include "core/strides.h"
#include "move/combine.h"
#include "move/combine_kind.h"

#define ELEMENTS_FIELDS(I64, I64S, F64, ENUM)                                                      \
    ENUM(kind, elements_names)                                                                     \
    I64(rank) I64S(dims, 8) I64S(index_strides, 8) I64S(data_strides, 8) I64(count) I64(index_step) \
        I64(size) I64(data_step) I64(item) I64(index_item) I64(dtype)
DECLARE_PARAMS(elements, ELEMENTS_FIELDS)

enum { ELEMENTS_X, ELEMENTS_INDICES, ELEMENTS_OPERANDS };

/* The first kinds are those of combine_kind. */
enum { ELEMENTS_GATHER = COMBINE_KINDS };

/* Lanes that an item makes. */
static inline int64_t elements_lanes_per_item(const struct elements_params *p)
{
    enum { ITEM_INDICES = 1024 };
    const int64_t lanes = ITEM_INDICES / (p->count + 1);
    return lanes < 1 ? 1 : lanes;
}

static const char *const elements_names[] = {COMBINE_NAMES, "gather", NULL};

/* Elements that the lanes reach, of which each has n, `step` apart. */
static int64_t reach(const struct elements_params *p, const int64_t *strides, int64_t n,
                     int64_t step)
{
    int64_t last = atc_mul(n - 1, step);
    for (int64_t i = 0; i < p->rank; i++)
        last = atc_add(last, atc_mul(p->dims[i] - 1, strides[i]));
    return atc_add(last, 1);
}

/* True if no two lanes write the same element of y. */
static bool writes_apart(const struct elements_params *p)
{
    const bool gathers = p->kind == ELEMENTS_GATHER;
    int64_t dims[ATC_MAX_RANK + 1] = {gathers ? p->count : p->size};
    int64_t strides[ATC_MAX_RANK + 1] = {gathers ? p->index_step : p->data_step};
    memcpy(dims + 1, p->dims, sizeof p->dims);
    memcpy(strides + 1, gathers ? p->index_strides : p->data_strides, sizeof p->index_strides);
    return dims[0] == 0 || atc_runs_apart(dims, strides, (int)p->rank + 1, 1);
}

static const char *check(const struct task_view *task)
{
    const struct elements_params *p = task->params;
    if (task->n_src != ELEMENTS_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_dims_ok(p->dims, p->rank) || !atc_sizes_ok(p->index_strides, (int)p->rank, 0) ||
        !atc_sizes_ok(p->data_strides, (int)p->rank, 0) ||
        !ATC_SIZES_OK(0, p->count, p->index_step, p->size, p->data_step))
        return "a size is out of range";
    const struct atc_slot *x = task->src + ELEMENTS_X, *indices = task->src + ELEMENTS_INDICES;
    if (!atc_is_item(p->item) || !atc_is_index(indices, p->index_item))
        return "items or indices are of an unknown size";
    if (p->kind != ELEMENTS_GATHER && !combine_ok(p->kind, p->dtype, p->item, x, task->dst))
        return "updates of this type cannot be combined";
    const int64_t lanes = atc_product(p->dims, p->rank);
    if (lanes == 0 || p->count == 0)
        return NULL;
    const int64_t index_elements = reach(p, p->index_strides, p->count, p->index_step);
    const int64_t data_elements =
        p->size == 0 ? 0 : reach(p, p->data_strides, p->size, p->data_step);
    const bool gathers = p->kind == ELEMENTS_GATHER;
    /* That many elements can be distinguished: lanes that overlap would make more work than they
     * hold. */
    if (atc_mul(lanes, p->count) > index_elements)
        return "lanes overlap";
    if (!writes_apart(p))
        return "lanes that are written overlap";
    if (!atc_holds(task, indices, DTYPE_ANY, index_elements, p->index_item) ||
        !atc_holds(task, x, DTYPE_ANY, gathers ? data_elements : index_elements, p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, gathers ? index_elements : data_elements, p->item))
        return "an operand is too small";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct elements_params *p = params;
    return (struct kernel_cost){
        .items =
            p->count == 0 ? 0 : ceil_div(atc_product(p->dims, p->rank), elements_lanes_per_item(p)),
        .work = atc_mul(atc_product(p->dims, p->rank), atc_mul(p->count, 2))};
}

DEFINE_FAMILY(elements, ELEMENTS_FIELDS, .check = check, .cost = cost);

/* First elements of a lane, among the indices and among the data. */
struct lane {
    int64_t index, data;
};

static struct lane lane_at(const struct elements_params *p, int64_t number)
{
    struct lane lane = {0, 0};
    for (int64_t i = p->rank - 1; i >= 0; i--) {
        const int64_t at = number % p->dims[i];
        number /= p->dims[i];
        lane.index += at * p->index_strides[i];
        lane.data += at * p->data_strides[i];
    }
    return lane;
}

/* n indices one after the other, index_step apart: of one lane, where lane_step is 0, or one of
 * each of n lanes, whose data is lane_step apart. Returns false after a fault. Sizes and steps, and
 * whether it gathers, are constants where this is inlined for the usual ones.
 */
static inline __attribute__((always_inline)) bool move_run(const struct kernel_args *args,
                                                           struct lane at, int64_t n, bool gathers,
                                                           int64_t item, int64_t index_item,
                                                           int64_t index_step, int64_t lane_step)
{
    const struct elements_params *p = args->params;
    /* Copies: what is written might be a parameter, for all that the compiler knows. */
    const int64_t data_step = p->data_step, size = p->size, kind = p->kind;
    const uint8_t *x = args->src[ELEMENTS_X], *indices = args->src[ELEMENTS_INDICES];
    uint8_t *y = args->dst[0];
    struct atc_fault *fault = args->fault;
    const combine_row combine = combine_of(p->dtype);
    for (int64_t i = 0; i < n; i++) {
        const int64_t index_at = at.index + i * index_step;
        const int64_t index = atc_read_index(indices, index_at, index_item);
        const int64_t position = atc_resolve_index(fault, index, size);
        if (position < 0)
            return false;
        const int64_t data_at = at.data + i * lane_step + position * data_step;
        if (gathers)
            memcpy(y + index_at * item, x + data_at * item, (size_t)item);
        else if (kind == COMBINE_NONE)
            memcpy(y + data_at * item, x + index_at * item, (size_t)item);
        else
            combine(y + data_at * item, x + index_at * item, 1, kind);
    }
    return true;
}

static inline __attribute__((always_inline)) bool move_usual(const struct kernel_args *args,
                                                             struct lane at, int64_t n,
                                                             bool gathers, int64_t index_step,
                                                             int64_t lane_step)
{
    const struct elements_params *p = args->params;
    const int64_t item = p->item, index_item = p->index_item;
    return item == 4 && index_item == 8
               ? move_run(args, at, n, gathers, 4, 8, index_step, lane_step)
           : item == 8 && index_item == 8
               ? move_run(args, at, n, gathers, 8, 8, index_step, lane_step)
               : move_run(args, at, n, gathers, item, index_item, index_step, lane_step);
}

/* One lane, index by index. */
static inline __attribute__((always_inline)) bool run_lane(const struct kernel_args *args,
                                                           struct lane lane, bool gathers)
{
    const struct elements_params *p = args->params;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->count);) {
        const struct lane at = {lane.index + piece.begin * p->index_step, lane.data};
        if (!move_usual(args, at, piece.end - piece.begin, gathers, p->index_step, 0))
            return false;
    }
    return true;
}

/* How many lanes go side by side, whose data stays in L1: 1, where a lane's own indices lie so. */
static int64_t max_side_by_side(const struct elements_params *p)
{
    enum { DATA_BYTES = 1 << 14, MIN_LANES = 16 };
    const int64_t last = p->rank - 1;
    if (last < 0 || p->index_strides[last] != 1 || p->data_strides[last] != 1 || p->index_step == 1)
        return 1;
    const int64_t lanes = DATA_BYTES / (atc_mul(p->size, p->item) + 1);
    return lanes < MIN_LANES ? MIN_LANES : lanes;
}

/* n lanes that lie side by side: the first index of each, then the second ones. Within a lane the
 * order remains.
 */
static __attribute__((noinline)) bool run_side_by_side(struct atc_meter *meter, struct lane lane,
                                                       int64_t n)
{
    const struct elements_params *p = meter->args->params;
    const bool gathers = p->kind == ELEMENTS_GATHER;
    for (int64_t i = 0; i < p->count; i++, lane.index += p->index_step)
        if (atc_spend(meter, n) || !(gathers ? move_usual(meter->args, lane, n, true, 1, 1)
                                             : move_usual(meter->args, lane, n, false, 1, 1)))
            return false;
    return true;
}

void elements_any_scalar(const struct kernel_args *args)
{
    const struct elements_params *p = args->params;
    const int64_t each = elements_lanes_per_item(p), together = max_side_by_side(p);
    const int64_t end = min_i64(args->end * each, atc_product(p->dims, p->rank));
    const bool gathers = p->kind == ELEMENTS_GATHER;
    int64_t number = args->begin * each;
    struct atc_meter meter = {.args = args};
    while (together > 1 && number < end) {
        const int64_t inner = p->dims[p->rank - 1], in_row = inner - number % inner;
        const int64_t n = min_i64(min_i64(together, end - number), in_row);
        if (!run_side_by_side(&meter, lane_at(p, number), n))
            return;
        number += n;
    }
    for (; number < end; number++) {
        const struct lane lane = lane_at(p, number);
        const bool goes_on = gathers ? run_lane(args, lane, true) : run_lane(args, lane, false);
        if (!goes_on)
            return;
    }
}
