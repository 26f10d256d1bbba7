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
 * Slices of which few differ are found by a hash of their keys, and those few sorted. Others are
 * all sorted by their keys, stably, so that of equal ones the first leads.
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

/* The first occurrences that a hash table may hold: it stays in a CPU's second cache, and half of
 * it is empty.
 */
static int64_t max_hashed(const struct unique_params *p)
{
    enum { MAX_HASHED = 1 << 14 };
    return min_i64(p->n / 2, MAX_HASHED);
}

struct entry {
    uint64_t hash;
    int64_t group; /* -1: none */
};

static int log2_entries(const struct unique_params *p)
{
    int log = 1;
    while (INT64_C(1) << log < 2 * max_hashed(p))
        log++;
    return log;
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
        .scratch = atc_add(atc_mul(atc_add(atc_mul(p->n, 4), element_count(p)), sizeof(int64_t)),
                           (int64_t)sizeof(struct entry) << log2_entries(p))};
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

/* The n slices in `order` sorted, in one of the two arrays; NULL if the call is to end. */
static const int64_t *sort(const struct slices *s, int64_t *order, int64_t *spare, int64_t n)
{
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

static bool is_of_elements(const struct unique_params *p)
{
    return p->outer == 1 && p->inner == 1;
}

/* The numbers of all slices in order, in one of the two arrays; NULL if the call is to end. */
static const int64_t *sort_all(const struct slices *s, int64_t *order, int64_t *spare)
{
    const int64_t n = s->p->n;
    if (is_of_elements(s->p))
        return sort_elements(s->meter->args, s->keys, n, order, spare);
    for (struct atc_piece piece = {0}; atc_next_piece(s->meter->args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            order[i] = i;
    return atc_was_stopped(s->meter->args) ? NULL : sort(s, order, spare, n);
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

/* The sets of equal slices. `group[i]` is that of slice i: a number below n. `number[g]` is the
 * position of group g in the result, and `first[k]` the first slice of the one at position k.
 */
struct groups {
    int64_t *group, *number, *first;
    int64_t count;
};

/* Names groups by their first slice. */
static void group_sorted(const struct slices *s, const int64_t *sorted, struct groups *to)
{
    const struct kernel_args *args = s->meter->args;
    const int64_t n = s->p->n;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const bool is_new = i == 0 || compare(s, sorted[i - 1], sorted[i]) != 0;
            to->group[sorted[i]] = is_new ? sorted[i] : to->group[sorted[i - 1]];
        }
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const int64_t slice = s->p->sorted ? sorted[i] : i;
            if (to->group[slice] == slice)
                to->number[slice] = to->count++;
        }
    /* The order is not needed any more. */
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            if (to->group[i] == i)
                to->first[to->number[i]] = i;
}

/* --- by hash -----------------------------------------------------------------------------------
 */

/* One to one: after the same `hash`, other keys make another one. */
static uint64_t add_to_hash(uint64_t hash, uint64_t key)
{
    return (hash ^ hash >> 32 ^ key) * UINT64_C(0x9e3779b97f4a7c15);
}

static void hash_slices(const struct slices *s, uint64_t *hashes)
{
    const struct unique_params *p = s->p;
    const uint64_t *keys = s->keys;
    for (int64_t outer = 0; outer < p->outer && p->n > 0; outer++)
        for (int64_t slice = 0; slice < p->n; slice++, keys += p->inner) {
            if (atc_spend(s->meter, 1 + min_i64(p->inner, COMPARED_WORK)))
                return;
            uint64_t hash = outer == 0 ? 0 : hashes[slice];
            for (struct atc_piece piece = {0}; atc_next_piece(s->meter->args, &piece, p->inner);)
                for (int64_t i = piece.begin; i < piece.end; i++)
                    hash = add_to_hash(hash, keys[i]);
            hashes[slice] = hash;
        }
}

/* Numbers groups by their first occurrence and notes these in `first`. False if they are too many
 * for the table, or if too many entries are in each other's way, as of chosen data.
 */
static bool group_by_hash(const struct slices *s, const uint64_t *hashes, struct entry *table,
                          struct groups *to)
{
    const struct kernel_args *args = s->meter->args;
    const struct unique_params *p = s->p;
    const bool is_element = is_of_elements(p);
    const int64_t max_groups = max_hashed(p), max_steps = 4 * p->n;
    const int log = log2_entries(p);
    const uint64_t last = (UINT64_C(1) << log) - 1;
    for (uint64_t at = 0; at <= last; at++)
        table[at] = (struct entry){0, -1};
    int64_t steps = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const uint64_t hash = is_element ? add_to_hash(0, s->keys[i]) : hashes[i];
            uint64_t at = hash >> (64 - log);
            while (table[at].group >= 0 &&
                   (table[at].hash != hash ||
                    (!is_element && compare(s, to->first[table[at].group], i) != 0))) {
                if (++steps > max_steps)
                    return false;
                at = (at + 1) & last;
            }
            if (table[at].group < 0) {
                if (to->count == max_groups)
                    return false;
                table[at] = (struct entry){hash, to->count};
                to->first[to->count++] = i;
            }
            to->group[i] = table[at].group;
        }
    return true;
}

/* The groups in order of their slices; NULL if the call is to end. `table` is memory for a key of
 * each, `spare` for two numbers of each.
 */
static const int64_t *sort_groups(const struct slices *s, const struct groups *of, uint64_t *table,
                                  int64_t *spare)
{
    const struct kernel_args *args = s->meter->args;
    if (is_of_elements(s->p)) {
        for (int64_t g = 0; g < of->count; g++)
            table[g] = s->keys[of->first[g]];
        return sort_elements(args, table, of->count, spare, spare + of->count);
    }
    memcpy(spare, of->first, (size_t)of->count * sizeof *spare);
    const int64_t *sorted = sort(s, spare, spare + of->count, of->count);
    int64_t *order = (int64_t *)table;
    for (int64_t i = 0; sorted != NULL && i < of->count; i++)
        order[i] = of->group[sorted[i]];
    return sorted == NULL ? NULL : order;
}

/* Puts groups that are numbered by their first occurrence into the order of the result. */
static void number_groups(const struct slices *s, uint64_t *table, int64_t *spare,
                          struct groups *to)
{
    if (!s->p->sorted) {
        for (int64_t g = 0; g < to->count; g++)
            to->number[g] = g;
        return;
    }
    const int64_t *order = sort_groups(s, to, table, spare);
    if (order == NULL)
        return;
    int64_t *first = to->number + to->count;
    for (int64_t k = 0; k < to->count; k++) {
        to->number[order[k]] = k;
        first[k] = to->first[order[k]];
    }
    to->first = first;
}

/* What the results after y say. */
static void write_counts(const struct kernel_args *args, const struct groups *of)
{
    const struct unique_params *p = args->params;
    int64_t *indices = p->results > UNIQUE_INDICES ? args->dst[UNIQUE_INDICES] : NULL;
    int64_t *inverse = p->results > UNIQUE_INVERSE ? args->dst[UNIQUE_INVERSE] : NULL;
    int64_t *counts = p->results > UNIQUE_COUNTS ? args->dst[UNIQUE_COUNTS] : NULL;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, of->count);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            if (indices != NULL)
                indices[i] = of->first[i];
            if (counts != NULL)
                counts[i] = 0;
        }
    for (struct atc_piece piece = {0}; inverse != NULL && atc_next_piece(args, &piece, p->n);)
        for (int64_t i = piece.begin; i < piece.end; i++) {
            const int64_t number = of->number[of->group[i]];
            inverse[i] = number;
            if (counts != NULL)
                counts[number]++;
        }
    *(int64_t *)args->dst[p->results] = of->count;
}

void unique_any_scalar(const struct kernel_args *args)
{
    const struct unique_params *p = args->params;
    if (args->begin == args->end)
        return;
    const int64_t n = p->n;
    int64_t *order = args->scratch, *spare = order + n, *group = spare + n, *number = group + n;
    uint64_t *keys = (uint64_t *)(number + n);
    struct entry *table = (void *)(keys + p->outer * n * p->inner);
    struct atc_meter meter = {.args = args};
    const struct slices slices = {p, keys, &meter};
    sort_keys(args, p->dtype, args->src[0], p->outer * n * p->inner, 1, 0, keys);
    if (!is_of_elements(p))
        hash_slices(&slices, (uint64_t *)spare);
    struct groups groups = {group, number, order, 0};
    if (group_by_hash(&slices, (uint64_t *)spare, table, &groups)) {
        if (!atc_was_stopped(args))
            number_groups(&slices, (uint64_t *)table, spare, &groups);
    } else {
        const int64_t *sorted = sort_all(&slices, order, spare);
        if (sorted == NULL)
            return;
        groups.count = 0;
        group_sorted(&slices, sorted, &groups);
    }
    if (atc_was_stopped(args))
        return;
    write_slices(args, groups.first, groups.count);
    write_counts(args, &groups);
}
