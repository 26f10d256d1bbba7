/* compress: the slices along the middle dim whose condition is true.
 *
 *     x          [outer, n, inner]
 *     condition  [conditions], bool; slices beyond it are left out
 *     y          [outer, count, inner]: room for [outer, n, inner]
 *     count      how many there are, one int64
 *
 * A condition that is true beyond n is a fault.
 */
#include "core/index.h"
#include "core/pieces.h"

#define COMPRESS_FIELDS(I64, I64S, F64, ENUM)                                                      \
    I64(outer) I64(n) I64(inner) I64(item) I64(conditions)
DECLARE_PARAMS(compress, COMPRESS_FIELDS)

enum { COMPRESS_X, COMPRESS_CONDITION, COMPRESS_OPERANDS };
enum { COMPRESS_Y, COMPRESS_COUNT, COMPRESS_RESULTS };

static const char *check(const struct task_view *task)
{
    const struct compress_params *p = task->params;
    if (task->n_src != COMPRESS_OPERANDS || task->n_dst != COMPRESS_RESULTS)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->n, p->inner, p->conditions))
        return "a size is out of range";
    if (!atc_is_item(p->item))
        return "items are of an unknown size";
    const int64_t elements = atc_mul(atc_mul(p->outer, p->n), p->inner);
    if (!atc_holds(task, task->src + COMPRESS_X, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task, task->src + COMPRESS_CONDITION, DTYPE_BOOL, p->conditions, 1) ||
        !atc_holds(task, task->dst + COMPRESS_Y, DTYPE_ANY, elements, p->item) ||
        !atc_holds(task, task->dst + COMPRESS_COUNT, DTYPE_I64, 1, 8))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* The work is one item: where a slice goes depends on all before it. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct compress_params *p = params;
    const int64_t looked_at = p->inner == 0 ? 0 : atc_mul(p->outer, atc_add(p->conditions, 1));
    return (struct kernel_cost){
        .items = 1,
        .work = atc_add(atc_add(p->conditions, looked_at),
                        atc_mul(atc_mul(p->outer, p->n), atc_mul(p->inner, p->item)) / 8)};
}

DEFINE_FAMILY(compress, COMPRESS_FIELDS, .check = check, .cost = cost);

/* How many conditions are true, none of them beyond n. */
static bool count_true(const struct kernel_args *args, int64_t *count)
{
    const struct compress_params *p = args->params;
    const uint8_t *condition = args->src[COMPRESS_CONDITION];
    int64_t found = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, min_i64(p->conditions, p->n));)
        for (int64_t i = piece.begin; i < piece.end; i++)
            found += condition[i] != 0;
    *count = found;
    struct atc_piece piece = {p->n, p->n};
    while (p->conditions > p->n && atc_next_piece(args, &piece, p->conditions))
        for (int64_t i = piece.begin; i < piece.end; i++)
            if (condition[i] != 0) {
                atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, i, p->n);
                return false;
            }
    return true;
}

/* Slices of one item: each is written, and the next one over it where its condition is false. A
 * branch would be guessed wrong as often as not. `y` has room for all.
 */
#define DEFINE_PICK(type)                                                                          \
    static uint8_t *pick_##type(uint8_t *y, const uint8_t *x, const uint8_t *condition, int64_t n) \
    {                                                                                              \
        int64_t taken = 0;                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type value;                                                                            \
            memcpy(&value, x + i * (int64_t)sizeof value, sizeof value);                           \
            memcpy(y + taken * (int64_t)sizeof value, &value, sizeof value);                       \
            taken += condition[i] != 0;                                                            \
        }                                                                                          \
        return y + taken * (int64_t)sizeof(type);                                                  \
    }
DEFINE_PICK(uint8_t)
DEFINE_PICK(uint16_t)
DEFINE_PICK(uint32_t)
DEFINE_PICK(uint64_t)

static uint8_t *pick(uint8_t *y, const uint8_t *x, const uint8_t *condition, int64_t n,
                     int64_t bytes)
{
    switch (bytes) {
    case 1:
        return pick_uint8_t(y, x, condition, n);
    case 2:
        return pick_uint16_t(y, x, condition, n);
    case 4:
        return pick_uint32_t(y, x, condition, n);
    default:
        return pick_uint64_t(y, x, condition, n);
    }
}

enum { RUN = 256 };

/* Which of n conditions, at most RUN, are true, and how many: found without a branch as well. */
static int64_t find_true(const uint8_t *condition, int64_t n, uint8_t *at)
{
    int64_t taken = 0;
    for (int64_t i = 0; i < n; i++) {
        at[taken] = (uint8_t)i;
        taken += condition[i] != 0;
    }
    return taken;
}

void compress_any_scalar(const struct kernel_args *args)
{
    const struct compress_params *p = args->params;
    if (args->begin == args->end)
        return;
    const uint8_t *condition = args->src[COMPRESS_CONDITION], *x = args->src[COMPRESS_X];
    uint8_t *y = args->dst[COMPRESS_Y];
    const int64_t bytes = p->inner * p->item;
    if (!count_true(args, args->dst[COMPRESS_COUNT]) || bytes == 0)
        return;
    const bool is_single = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    const int64_t known = min_i64(p->conditions, p->n);
    struct atc_meter meter = {.args = args};
    uint8_t at[RUN];
    for (int64_t outer = 0; outer < p->outer; outer++, x += p->n * bytes) {
        if (atc_spend(&meter, 1))
            return;
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, known);) {
            if (is_single) {
                y = pick(y, x + piece.begin * bytes, condition + piece.begin,
                         piece.end - piece.begin, bytes);
                continue;
            }
            for (int64_t i = piece.begin; i < piece.end; i += RUN) {
                const int64_t n = min_i64(RUN, piece.end - i),
                              taken = find_true(condition + i, n, at);
                for (int64_t k = 0; k < taken; k++, y += bytes) {
                    if (atc_spend(&meter, 1 + bytes / 8))
                        return;
                    atc_copy(args, y, x + (i + at[k]) * bytes, bytes);
                }
            }
        }
    }
}
