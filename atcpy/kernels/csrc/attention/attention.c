/* The attention family: its checker and its cut into blocks of queries. */
#include "core/pieces.h"
#include "attention/attention.h"

#include <math.h>
#include <string.h>

/* Elements of a mask that is read with these strides. */
static int64_t mask_reach(const struct attention_params *p)
{
    const int64_t dims[] = {p->batch, p->heads, p->q_len};
    int64_t elements = p->kv_len;
    for (int i = 0; i < 3; i++)
        elements = atc_add(elements, atc_mul(dims[i] - 1, p->mask[i]));
    return elements;
}

/* True if a joined operand's heads lie within its rows. */
static bool lies_in_rows(const struct attention_params *p, int operand, int64_t heads,
                         int64_t width)
{
    return atc_add(p->at[operand], atc_mul(heads, width)) <= p->row[operand];
}

/* Elements of a row of an operand: all heads, or as many as the record says. */
static int64_t row_elements(const struct attention_params *p, int operand, int64_t heads,
                            int64_t width)
{
    return p->joined ? p->row[operand] : atc_mul(heads, width);
}

static bool holds(const struct task_view *task, int operand, int64_t rows, int64_t heads,
                  int64_t width)
{
    const struct attention_params *p = task->params;
    const int64_t elements = atc_mul(rows, row_elements(p, operand, heads, width));
    return atc_holds(task, task->src + operand, DTYPE_F32, elements, 4);
}

/* Bytes of an element of the past, and of what is kept. */
static int64_t kept_item(const struct attention_params *p)
{
    return p->half ? 2 : 4;
}

/* True if `slot` has heads of so many rows, or is left out where there are none. */
static bool holds_heads(const struct task_view *task, const struct atc_slot *slot, int64_t rows,
                        int64_t width)
{
    const struct attention_params *p = task->params;
    const int64_t heads = atc_mul(p->batch, p->kv_heads);
    if (rows == 0)
        return slot->region == REGION_NONE;
    return atc_holds(task, slot, p->half ? DTYPE_F16 : DTYPE_F32,
                     atc_mul(heads, atc_mul(rows, width)), kept_item(p));
}

/* Rows of each head in all_k and all_v. */
static int64_t all_rows(const struct attention_params *p)
{
    return p->cache == 0 ? p->kv_len : p->cache;
}

static const char *check_tokens(const struct task_view *task)
{
    const struct attention_params *p = task->params;
    const struct atc_slot *tokens = task->src + ATTENTION_TOKENS;
    if ((tokens->region != REGION_NONE) != (p->token_item > 0))
        return "tokens are missing";
    if (p->token_item == 0)
        return NULL;
    if (p->linear < 0 || p->linear > 1)
        return "a flag is neither 0 nor 1";
    if (p->tokens_step != 0 && p->tokens_step != p->kv_len)
        return "tokens_step fits neither way";
    if (task->src[ATTENTION_KEPT].region != REGION_NONE)
        return "tokens beside a mask of bools";
    const int64_t rows = p->tokens_step == 0 ? 1 : p->batch;
    if (!atc_is_index(tokens, p->token_item) ||
        !atc_holds(task, tokens, DTYPE_ANY, atc_mul(rows, p->kv_len), p->token_item))
        return "tokens are too small or neither int32 nor int64";
    return NULL;
}

static const char *check(const struct task_view *task)
{
    const struct attention_params *p = task->params;
    if (task->n_src != ATTENTION_OPERANDS || (task->n_dst != 1 && task->n_dst != ATTENTION_RESULTS))
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->batch, p->heads, p->kv_heads, p->q_len, p->kv_len, p->head,
                      p->v_head) ||
        !atc_sizes_ok(p->mask, 3, 0) || !atc_sizes_ok(p->row, 3, 0) || !atc_sizes_ok(p->at, 3, 0) ||
        p->past < 0 || p->past >= p->kv_len)
        return "a size is out of range";
    if (p->head > ATTENTION_HEAD || p->v_head > ATTENTION_HEAD)
        return "a head is too wide";
    if (!(p->softcap >= 0) || !isfinite(p->softcap))
        return "the softcap is no bound";
    if (p->heads % p->kv_heads != 0)
        return "the heads of q do not share those of k evenly";
    if (p->joined < 0 || p->joined > 1 || p->causal < 0 || p->causal > 1 || p->half < 0 ||
        p->half > 1 || p->bf16 < 0 || p->bf16 > 1)
        return "a flag is neither 0 nor 1";
    if (p->joined && (!lies_in_rows(p, ATTENTION_Q, p->heads, p->head) ||
                      !lies_in_rows(p, ATTENTION_K, p->kv_heads, p->head) ||
                      !lies_in_rows(p, ATTENTION_V, p->kv_heads, p->v_head)))
        return "the heads leave their rows";
    const int64_t queries = atc_mul(p->batch, p->q_len),
                  keys = atc_mul(p->batch, p->kv_len - p->past);
    if (!holds(task, ATTENTION_Q, queries, p->heads, p->head) ||
        !holds(task, ATTENTION_K, keys, p->kv_heads, p->head) ||
        !holds(task, ATTENTION_V, keys, p->kv_heads, p->v_head) ||
        !atc_holds(task, task->dst, DTYPE_F32, atc_mul(queries, atc_mul(p->heads, p->v_head)), 4))
        return "an operand is too small or of another type";
    if (p->cache != 0 && (p->cache < p->kv_len || task->n_dst != ATTENTION_RESULTS))
        return "the cache is too small or left out";
    const int64_t past = p->cache == 0 ? p->past : 0;
    if (!holds_heads(task, task->src + ATTENTION_PAST_K, past, p->head) ||
        !holds_heads(task, task->src + ATTENTION_PAST_V, past, p->v_head))
        return "the past is too small or of another type";
    if (task->n_dst == ATTENTION_RESULTS &&
        (!holds_heads(task, task->dst + ATTENTION_ALL_K, all_rows(p), p->head) ||
         !holds_heads(task, task->dst + ATTENTION_ALL_V, all_rows(p), p->v_head)))
        return "there is no room for all keys and values";
    const struct atc_slot *added = task->src + ATTENTION_ADDED, *kept = task->src + ATTENTION_KEPT;
    if (added->region != REGION_NONE && kept->region != REGION_NONE)
        return "there are two masks";
    if (!atc_holds_optional(task, ATTENTION_ADDED, DTYPE_F32, mask_reach(p), 4) ||
        !atc_holds_optional(task, ATTENTION_KEPT, DTYPE_BOOL, mask_reach(p), 1))
        return "the mask is too small or of another type";
    return check_tokens(task);
}

/* Which heads have items of their own, and how many rows of queries each. */
struct item_heads {
    int64_t heads, rows;
};

static struct item_heads item_heads(const struct attention_params *p)
{
    if (p->q_len == 1)
        return (struct item_heads){p->kv_heads, p->heads / p->kv_heads};
    return (struct item_heads){p->heads, p->q_len};
}

static int64_t chunks(const struct attention_params *p)
{
    return ceil_div(item_heads(p).rows, ATTENTION_ROWS);
}

static int64_t in_panels(int64_t columns)
{
    return ceil_div(columns, 16) * 16;
}

/* A panel of keys, or two rows of values. */
static int64_t wide_floats(const struct attention_params *p)
{
    const int64_t keys = 16 * p->head, values = 2 * in_panels(p->v_head);
    return keys > values ? keys : values;
}

struct attention_scratch attention_scratch(const struct attention_params *p)
{
    const int64_t rows = min_i64(item_heads(p).rows, ATTENTION_ROWS);
    const int64_t keys = min_i64(p->kv_len, ATTENTION_KEYS);
    return (struct attention_scratch){
        .q = in_panels(rows * p->head),
        .scores = min_i64(rows, ATTENTION_STRIP) * ATTENTION_SCORE_ROW,
        .k = in_panels(keys) * p->head,
        .v = in_panels(p->v_head) * keys,
        .tokens = p->token_item > 0 ? p->kv_len : 0,
        .wide = p->half || p->bf16 ? wide_floats(p) : 0,
    };
}

/* Of queries and keys, and of scores and values; also where a mask hides them. */
static int64_t products(const void *params)
{
    const struct attention_params *p = params;
    const int64_t scores = atc_mul(atc_mul(p->batch, p->heads), atc_mul(p->q_len, p->kv_len));
    return atc_mul(scores, atc_add(p->head, p->v_head));
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct attention_params *p = params;
    enum { ITEM_WORK = 256 }; /* panels are filled with zeros, however few keys there are */
    const int64_t scores = atc_mul(atc_mul(p->batch * p->heads, p->q_len), p->kv_len);
    const int64_t items = p->batch * item_heads(p).heads * chunks(p);
    const struct attention_scratch s = attention_scratch(params);
    return (struct kernel_cost){
        .items = items,
        .work = atc_add(atc_mul(scores, 4 + (p->head + p->v_head) / 16), atc_mul(items, ITEM_WORK)),
        .scratch = (s.q + s.scores + s.k + s.v + s.tokens + s.wide) * (int64_t)sizeof(float)};
}

/* Elements from one batch to the next, from head to head and from row to row; where the first is.
 */
struct steps {
    int64_t batch, head, row, at;
};

static struct steps steps(const struct attention_params *p, int64_t heads, int64_t rows,
                          int64_t width, int64_t row, int64_t at)
{
    if (p->joined)
        return (struct steps){rows * row, width, row, at};
    return (struct steps){heads * rows * width, rows * width, width, 0};
}

static int64_t first_of(const struct steps *s, int64_t batch, int64_t head, int64_t row)
{
    return s->at + batch * s->batch + head * s->head + row * s->row;
}

/* Where part `part` of `parts` of nearly equal size begins, without a product that could overflow.
 */
static int64_t cut_at(int64_t n, int64_t parts, int64_t part)
{
    return n / parts * part + min_i64(part, n % parts);
}

struct attention_item attention_item_at(const struct attention_params *p, int64_t item)
{
    const struct item_heads of = item_heads(p);
    const int64_t parts = chunks(p), part = item % parts;
    const int64_t own = item / parts % of.heads, batch = item / parts / of.heads;
    const int64_t sharing = of.heads / p->kv_heads; /* items' heads that share one of keys */
    const int64_t shared = own / sharing, keys = p->kv_len - p->past;
    /* Which item writes which rows: all items that read a head share its rows. */
    const int64_t writers = sharing * parts, writer = own % sharing * parts + part;
    const int64_t *row = p->row, *at = p->at;
    const struct steps q = steps(p, p->heads, p->q_len, p->head, row[0], at[0]);
    const struct steps k = steps(p, p->kv_heads, keys, p->head, row[1], at[1]);
    const struct steps v = steps(p, p->kv_heads, keys, p->v_head, row[2], at[2]);
    const struct steps y = steps(p, p->heads, p->q_len, p->v_head, p->heads * p->v_head, 0);
    const bool by_head = p->q_len == 1; /* the rows are heads */
    const int64_t first = cut_at(of.rows, parts, part);
    const int64_t head = by_head ? own * of.rows + first : own, query = by_head ? 0 : first;
    struct attention_item it = {
        .query = query,
        .query_step = by_head ? 0 : 1,
        .rows = cut_at(of.rows, parts, part + 1) - first,
        .q_row = by_head ? q.head : q.row,
        .k_row = k.row,
        .v_row = v.row,
        .y_row = by_head ? y.head : y.row,
        .mask_row = p->mask[by_head ? 1 : 2],
        .head = batch * p->kv_heads + shared,
        .kept = cut_at(p->kv_len, writers, writer),
        .kept_end = cut_at(p->kv_len, writers, writer + 1),
    };
    it.q = first_of(&q, batch, head, query);
    it.y = first_of(&y, batch, head, query);
    it.k = first_of(&k, batch, shared, 0);
    it.v = first_of(&v, batch, shared, 0);
    it.tokens = batch * p->tokens_step;
    it.mask = batch * p->mask[0] + head * p->mask[1] + query * p->mask[2];
    return it;
}

/* Rows of an operand from `first` on: of the past, which may lie in the cache, or of what is new.
 */
static struct attention_rows rows_from(const struct kernel_args *args,
                                       const struct attention_item *it, int past, int cache,
                                       const float *now, int64_t now_row, int64_t width,
                                       int64_t first)
{
    const struct attention_params *p = args->params;
    if (first >= p->past)
        return (struct attention_rows){now + (first - p->past) * now_row, now_row, false};
    const uint8_t *heads = p->cache == 0 ? args->src[past] : args->dst[cache];
    const int64_t rows = p->cache == 0 ? p->past : p->cache;
    return (struct attention_rows){heads + (it->head * rows + first) * width * kept_item(p), width,
                                   p->half != 0};
}

struct attention_rows attention_keys_from(const struct kernel_args *args,
                                          const struct attention_item *it, int64_t first)
{
    const struct attention_params *p = args->params;
    return rows_from(args, it, ATTENTION_PAST_K, ATTENTION_ALL_K,
                     (const float *)args->src[ATTENTION_K] + it->k, it->k_row, p->head, first);
}

struct attention_rows attention_values_from(const struct kernel_args *args,
                                            const struct attention_item *it, int64_t first)
{
    const struct attention_params *p = args->params;
    return rows_from(args, it, ATTENTION_PAST_V, ATTENTION_ALL_V,
                     (const float *)args->src[ATTENTION_V] + it->v, it->v_row, p->v_head, first);
}

/* Writes the first of some rows at row `row` of what is kept. */
static void keep_row(const struct attention_params *p, struct attention_rows from, void *kept,
                     int64_t row, int64_t width)
{
    uint8_t *to = (uint8_t *)kept + row * width * kept_item(p);
    if (p->half && !from.half) {
        for (int64_t i = 0; i < width; i++)
            ((uint16_t *)(void *)to)[i] = f16_of_f32(((const float *)from.at)[i]);
        return;
    }
    memcpy(to, from.at, (size_t)(width * kept_item(p)));
}

void attention_keep(const struct kernel_args *args, const struct attention_item *it)
{
    const struct attention_params *p = args->params;
    void *keys = args->dst[ATTENTION_ALL_K], *values = args->dst[ATTENTION_ALL_V];
    if (keys == NULL)
        return;
    const int64_t first = it->head * all_rows(p);
    const int64_t there = p->cache == 0 ? 0 : p->past; /* rows of the cache that stay */
    struct atc_meter meter = {.args = args};
    for (int64_t i = it->kept > there ? it->kept : there;
         i < it->kept_end && !atc_spend(&meter, p->head + p->v_head); i++) {
        keep_row(p, attention_keys_from(args, it, i), keys, first + i, p->head);
        keep_row(p, attention_values_from(args, it, i), values, first + i, p->v_head);
    }
}

bool attention_is_bf16(const struct task_view *task)
{
    return ((const struct attention_params *)task->params)->bf16 != 0;
}

DEFINE_FAMILY(attention, ATTENTION_FIELDS, .check = check, .cost = cost, .products = products);
