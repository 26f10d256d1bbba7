/* unpool: elements at the indices that a pool took them from, and 0 elsewhere.
 *
 *     x        [n]
 *     indices  [n], int64: indices into [planes, in…], row by row; the last of equal ones counts
 *     y        [planes, out…], whose dims are not below those of `in`
 */
#include "core/pieces.h"

enum { UNPOOL_DIMS = 3 };

#define UNPOOL_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(planes) I64S(in, UNPOOL_DIMS) I64S(out, UNPOOL_DIMS) I64(n) I64(item)
DECLARE_PARAMS(unpool, UNPOOL_FIELDS)

enum { UNPOOL_X, UNPOOL_INDICES, UNPOOL_OPERANDS };

static int64_t elements(const struct unpool_params *p, const int64_t *dims)
{
    return atc_mul(atc_mul(p->planes, dims[0]), atc_mul(dims[1], dims[2]));
}

static const char *check(const struct task_view *task)
{
    const struct unpool_params *p = task->params;
    if (task->n_src != UNPOOL_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->planes) || !ATC_SIZES_OK(0, p->n) ||
        !atc_sizes_ok(p->in, UNPOOL_DIMS, 1) || !atc_sizes_ok(p->out, UNPOOL_DIMS, 1))
        return "a size is out of range";
    for (int i = 0; i < UNPOOL_DIMS; i++)
        if (p->in[i] > p->out[i])
            return "the result is too small";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8)
        return "items are of an unknown size";
    if (elements(p, p->in) >= ATC_TOO_BIG ||
        !atc_holds(task, task->src + UNPOOL_X, DTYPE_ANY, p->n, p->item) ||
        !atc_holds(task, task->src + UNPOOL_INDICES, DTYPE_I64, p->n, 8) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements(p, p->out), p->item))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* The work is one item: an index may repeat, and the last one counts. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct unpool_params *p = params;
    return (struct kernel_cost){
        .items = 1, .work = atc_add(atc_mul(p->n, 8), atc_mul(elements(p, p->out), p->item) / 8)};
}

DEFINE_FAMILY(unpool, UNPOOL_FIELDS, .check = check, .cost = cost);

/* Where an index into the smaller image lies in the result. */
static inline int64_t move_index(const int64_t *in, const int64_t *out, int64_t at)
{
    const int64_t w = at % in[2], rows = at / in[2];
    const int64_t h = rows % in[1], slices = rows / in[1];
    const int64_t d = slices % in[0], plane = slices / in[0];
    return ((plane * out[0] + d) * out[1] + h) * out[2] + w;
}

/* How much of y is cleared: where the indices below `indices` lead, the first `bytes`. */
struct cleared {
    int64_t indices, bytes;
};

/* Clears where index `at` leads, and some ahead: elements mostly lie in order, so that what is
 * cleared just before they are written goes to memory once. False after a fault.
 */
static bool clear_at(const struct kernel_args *args, struct cleared *cleared, int64_t at)
{
    enum { AHEAD = 1 << 14 };
    const struct unpool_params *p = args->params;
    const int64_t all = elements(p, p->in);
    if (at < 0 || at >= all) {
        atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, at, all);
        return false;
    }
    cleared->indices = min_i64(at + AHEAD, all);
    const int64_t end = (move_index(p->in, p->out, cleared->indices - 1) + 1) * p->item;
    atc_clear(args, (uint8_t *)args->dst[0] + cleared->bytes, end - cleared->bytes);
    cleared->bytes = end;
    return true;
}

/* The elements [begin, end) of x; false after a fault. `item`, and whether indices are those into
 * the result, are constants where this is inlined for the usual ones.
 */
static inline __attribute__((always_inline)) bool place(const struct kernel_args *args,
                                                        struct cleared *cleared,
                                                        struct atc_piece piece, int64_t item,
                                                        bool is_same)
{
    const struct unpool_params *p = args->params;
    const int64_t *indices = args->src[UNPOOL_INDICES];
    const uint8_t *x = args->src[UNPOOL_X];
    uint8_t *y = args->dst[0];
    uint64_t below = (uint64_t)cleared->indices;
    for (int64_t i = piece.begin; i < piece.end; i++) {
        const int64_t at = indices[i];
        if ((uint64_t)at >= below) { /* as negative ones are, too */
            if (!clear_at(args, cleared, at))
                return false;
            below = (uint64_t)cleared->indices;
        }
        const int64_t to = is_same ? at : move_index(p->in, p->out, at);
        memcpy(y + to * item, x + i * item, (size_t)item);
    }
    return true;
}

void unpool_any_scalar(const struct kernel_args *args)
{
    const struct unpool_params *p = args->params;
    const int64_t *in = p->in, *out = p->out;
    if (args->begin >= args->end)
        return;
    const bool is_same = in[0] == out[0] && in[1] == out[1] && in[2] == out[2];
    struct cleared cleared = {0, 0};
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        if (!(is_same && p->item == 4 ? place(args, &cleared, piece, 4, true)
                                      : place(args, &cleared, piece, p->item, is_same)))
            return;
    atc_clear(args, (uint8_t *)args->dst[0] + cleared.bytes,
              elements(p, out) * p->item - cleared.bytes);
}
