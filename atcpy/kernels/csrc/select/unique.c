/* unique: the different slices along the middle dim, and where each of all is among them.
 *
 *     x        [outer, n, inner], of type `dtype`
 *     y        [outer, count, inner]: room for [outer, n, inner]
 *     indices  [count]: where each stands first; room for n, as for counts
 *     inverse  [n]: which of them each slice is
 *     counts   [count]: how often each is there
 *     count    how many there are, one int64
 *
 * The first `results` of y … counts are there, all but y of int64, then count. `sorted`, they are
 * in order of their elements, else in that of their first occurrence. NaN are equal, and larger
 * than all.
 *
 * Slices are sorted by their keys, stably, so that of equal ones the first leads.
 */
#include "select/sort_elements.h"

#define UNIQUE_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(outer) I64(n) I64(inner) I64(sorted) I64(results) I64(dtype)
DECLARE_PARAMS(unique, UNIQUE_FIELDS)

enum { UNIQUE_Y, UNIQUE_INDICES, UNIQUE_INVERSE, UNIQUE_COUNTS, UNIQUE_RESULTS };

static int64_t element_count(const struct unique_params *p)
{
    return atc_mul(atc_mul(p->outer, p->n), p->inner);
}

static const char *check(const struct task_view *task)
{
    const struct unique_params *p = task->params;
    if (p->results < 1 || p->results > UNIQUE_RESULTS || task->n_src != 1 ||
        task->n_dst != p->results + 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->n, p->inner))
        return "a size is out of range";
    if (p->sorted != 0 && p->sorted != 1)
        return "sorted is neither 0 nor 1";
    if (p->dtype != task->src->dtype || !atc_is_number(task->src->dtype) ||
        task->dst[UNIQUE_Y].dtype != task->src->dtype)
        return "elements of this type have no order";
    const int64_t item = atc_item_bytes(task->src->dtype);
    for (int64_t i = 1; i <= p->results; i++)
        if (!atc_holds(task, task->dst + i, DTYPE_I64, i == p->results ? 1 : p->n, 8))
            return "an operand is too small or of a wrong type";
    if (!atc_holds(task, task->src, DTYPE_ANY, element_count(p), item) ||
        !atc_holds(task, task->dst + UNIQUE_Y, DTYPE_ANY, element_count(p), item))
        return "an operand is too small";
    return NULL;
}

/* The work is one item, a sort. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct unique_params *p = params;
    const int64_t slice = atc_mul(p->outer, atc_add(p->inner, 1));
    int64_t rounds = 8;
    for (int64_t width = 1; width < p->n; width *= 2)
        rounds++;
    return (struct kernel_cost){
        .items = 1,
        .work = atc_mul(rounds, atc_add(atc_add(p->n, p->outer), atc_mul(p->n, slice))),
        .scratch = atc_mul(atc_add(atc_mul(p->n, 4), element_count(p)), sizeof(int64_t))};
}

DEFINE_FAMILY(unique, UNIQUE_FIELDS, .check = check, .cost = cost);

/* The keys of all elements, laid out as x is. */
struct slices {
    const struct unique_params *p;
    const uint64_t *keys;
    struct atc_meter *meter;
};

enum { COMPARED_WORK = 1024 }; /* at most, of a comparison: few go on to the end of long slices */

static int compare(const struct slices *s, int64_t a, int64_t b)
{
    const struct unique_params *p = s->p;
    for (int64_t outer = 0; outer < p->outer; outer++) {
        const uint64_t *left = s->keys + (outer * p->n + a) * p->inner;
        const uint64_t *right = s->keys + (outer * p->n + b) * p->inner;
        if (atc_spend(s->meter, min_i64(p->inner, COMPARED_WORK)))
            return 0;
        for (struct atc_piece piece = {0}; atc_next_piece(s->meter->args, &piece, p->inner);)
            for (int64_t i = piece.begin; i < piece.end; i++)
                if (left[i] != right[i])
                    return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

static void merge(const struct slices *s, const int64_t *from, int64_t *to, int64_t begin,
                  int64_t middle, int64_t end)
{
    for (int64_t a = begin, b = middle, at = begin; at < end && !atc_spend(s->meter, 1); at++) {
        const bool left = b == end || (a < middle && compare(s, from[a], from[b]) <= 0);
        to[at] = from[left ? a++ : b++];
    }
}

/* The numbers of the slices in order, in one of the two arrays; NULL if the call is to end. */
static const int64_t *sort(const struct slices *s, int64_t *order, int64_t *spare)
{
    const int64_t n = s->p->n;
    for (struct atc_piece piece = {0}; atc_next_piece(s->meter->args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            order[i] = i;
    if (atc_was_stopped(s->meter->args))
        return NULL;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            if (atc_spend(s->meter, 1))
                return NULL;
            merge(s, order, spare, begin, min_i64(begin + width, n), min_i64(begin + 2 * width, n));
        }
        int64_t *const sorted = spare;
        spare = order;
        order = sorted;
    }
    return atc_was_stopped(s->meter->args) ? NULL : order;
}

static void write_slices(const struct kernel_args *args, const int64_t *first, int64_t count)
{
    const struct unique_params *p = args->params;
    const int64_t bytes = p->inner * atc_item_bytes((int)p->dtype);
    const uint8_t *x = args->src[0];
    uint8_t *y = args->dst[UNIQUE_Y];
    struct atc_meter meter = {.args = args};
    for (int64_t outer = 0; outer < p->outer; outer++)
        for (int64_t i = 0; i < count; i++) {
            if (atc_spend(&meter, 1 + bytes / 8))
                return;
            atc_copy(args, y + (outer * count + i) * bytes, x + (outer * p->n + first[i]) * bytes,
                     bytes);
        }
}

/* How many different slices there are. `leader[i]` becomes the first slice equal to i, `number[i]`
 * the position of leader i in the result.
 */
static int64_t number_slices(const struct slices *s, const int64_t *sorted, int64_t *leader,
                             int64_t *number)
{
    const struct kernel_args *args = s->meter->args;
    const int64_t n = s->p->n;
    int64_t count = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const bool is_new = i == 0 || compare(s, sorted[i - 1], sorted[i]) != 0;
            leader[sorted[i]] = is_new ? sorted[i] : leader[sorted[i - 1]];
        }
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const int64_t slice = s->p->sorted ? sorted[i] : i;
            if (leader[slice] == slice)
                number[slice] = count++;
        }
    return count;
}

/* What the results after y say. */
static void write_counts(const struct kernel_args *args, const int64_t *first, int64_t count,
                         const int64_t *leader, const int64_t *number)
{
    const struct unique_params *p = args->params;
    int64_t *indices = p->results > UNIQUE_INDICES ? args->dst[UNIQUE_INDICES] : NULL;
    int64_t *inverse = p->results > UNIQUE_INVERSE ? args->dst[UNIQUE_INVERSE] : NULL;
    int64_t *counts = p->results > UNIQUE_COUNTS ? args->dst[UNIQUE_COUNTS] : NULL;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, count);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            if (indices != NULL)
                indices[i] = first[i];
            if (counts != NULL)
                counts[i] = 0;
        }
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            if (inverse != NULL)
                inverse[i] = number[leader[i]];
            if (counts != NULL)
                counts[number[leader[i]]]++;
        }
    *(int64_t *)args->dst[p->results] = count;
}

void unique_any_scalar(const struct kernel_args *args)
{
    const struct unique_params *p = args->params;
    if (args->begin == args->end)
        return;
    const int64_t n = p->n;
    int64_t *order = args->scratch, *spare = order + n, *leader = spare + n, *number = leader + n;
    uint64_t *keys = (uint64_t *)(number + n);
    struct atc_meter meter = {.args = args};
    const struct slices slices = {p, keys, &meter};
    sort_keys(args, p->dtype, args->src[0], p->outer * n * p->inner, 1, 0, keys);
    const bool is_element = p->outer == 1 && p->inner == 1;
    const int64_t *sorted =
        is_element ? sort_elements(args, keys, n, order, spare) : sort(&slices, order, spare);
    if (sorted == NULL)
        return;
    const int64_t count = number_slices(&slices, sorted, leader, number);
    if (atc_was_stopped(args))
        return;
    /* The order is not needed any more. */
    int64_t *first = order;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            if (leader[i] == i)
                first[number[i]] = i;
    if (atc_was_stopped(args))
        return;
    write_slices(args, first, count);
    write_counts(args, first, count, leader, number);
}
