/* attention: softmax(scale · q·kᵀ + mask) · v, head by head. Where `softcap` is not 0, a score s is
 * softcap · tanh(s / softcap) before masks are added.
 *
 *     q       [batch, heads, q_len, head]; where `joined`, [batch, q_len, row[0]], of which
 *             heads · head elements from at[0] on are read
 *     k       [batch, kv_heads, kv_len − past, head], or joined, by row[1] and at[1]
 *     v       [batch, kv_heads, kv_len − past, v_head], or joined, by row[2] and at[2]
 *     mask    optional: floats, which are added to the scores, or bools, false where a key does not
 *             take part; element (b, h, i, j) lies at b, h and i times the mask's strides, + j
 *     tokens  optional, beside a mask of floats or none: [batch, kv_len], or with tokens_step = 0
 *             one row, whole numbers of token_item bytes; a key's number t says what is added to
 *             its scores: 0 where t > 0, else `fill`; where `linear`, (1 − t) · fill
 *     past_k  where `past` is not 0: [batch, kv_heads, past, head], the keys in front of k
 *     past_v  [batch, kv_heads, past, v_head]
 *     y       [batch, heads, q_len, v_head]; where joined, [batch, q_len, heads · v_head]
 *     all_k   optional: [batch, kv_heads, kv_len, head], the keys of the past and the new ones
 *     all_v   with it: [batch, kv_heads, kv_len, v_head]
 *
 * Where `half`, past_k, past_v, all_k and all_v are float16: rows of the past are widened where
 * they are read, new rows are rounded where they are kept.
 *
 * Where `cache` is not 0, all_k and all_v have so many rows for each head, of which the first
 * `past` are there already: past_k and past_v are left out, and only the new rows are written.
 *
 * Where `bf16`, factors of both products are rounded to bfloat16: queries once they are scaled,
 * keys, values, and what becomes of the scores; not of few rows, which read keys and values once.
 *
 * heads / kv_heads heads of q share one of k and v. Where `causal`, query i sees keys 0 … past + i.
 * A query without any key gives zeros. The scores are never in memory as a whole: a block of
 * queries meets a block of keys after the other, a strip of them at a time, whose scores stay in L1
 * or L2; what is summed up so far is scaled when a larger score comes.
 */
#ifndef ATC_ATTENTION_H
#define ATC_ATTENTION_H

#include "core/half.h"
#include "core/index.h"
#include "core/kernel.h"
#include "matmul/matmul.h"

enum {
    ATTENTION_ROWS = 128, /* most queries of an item */
    ATTENTION_STRIP = 42, /* most of them whose scores are in memory: whole tiles on all ISAs */
    ATTENTION_KEYS = 256, /* keys of a block */
    ATTENTION_HEAD = 1024,
    ATTENTION_FEW_ROWS = 6, /* use keys and values less often than packing them takes */
    ATTENTION_SCORE_ROW = ATTENTION_KEYS + 16, /* no power of two: rows do not share sets of L1 */
};

#define ATTENTION_FIELDS(I64, I64S, F64, ENUM)                                                     \
    I64(batch) I64(heads) I64(kv_heads) I64(q_len) I64(kv_len) I64(head) I64(v_head) I64(joined)   \
        I64(causal) I64(past) I64S(row, 3) I64S(at, 3) I64S(mask, 3) F64(scale)                    \
            I64(token_item) I64(tokens_step) I64(linear) F64(fill) I64(cache) I64(half) F64(softcap) \
        I64(bf16)
DECLARE_PARAMS(attention, ATTENTION_FIELDS)

/* A mask of floats and one of bools; a task has one of them, or none. Tokens go with the former. */
enum {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_ADDED,
    ATTENTION_KEPT,
    ATTENTION_PAST_K,
    ATTENTION_PAST_V,
    ATTENTION_TOKENS,
    ATTENTION_OPERANDS,
};
enum { ATTENTION_Y, ATTENTION_ALL_K, ATTENTION_ALL_V, ATTENTION_RESULTS };

/* One work item: rows of queries that share one head of keys, and the rows [kept, kept_end) of
 * all_k and all_v. The rows are some queries of one head; where there is one query of each, they
 * are those of the heads that share keys, which are packed once for all. Offsets are in elements;
 * `head` counts those of keys, of all batches.
 */
struct attention_item {
    int64_t q, k, v, mask, tokens, y;
    int64_t query, query_step; /* which query the first row is, and how much further the next one */
    int64_t rows;
    int64_t head, kept, kept_end;
    int64_t q_row, k_row, v_row, y_row, mask_row; /* elements from one row to the next */
};

struct attention_item attention_item_at(const struct attention_params *p, int64_t item);

/* Whether the factors of an item are rounded. */
static inline bool attention_rounds(const struct attention_params *p,
                                    const struct attention_item *it)
{
    return p->bf16 != 0 && it->rows > ATTENTION_FEW_ROWS;
}

/* Rows of keys, or of values, that lie `row` elements apart, of float16 or float32. */
struct attention_rows {
    const void *at;
    int64_t row;
    bool half;
};

/* Element `at` of the first of some rows. */
static inline float attention_element(const struct attention_rows *rows, int64_t at)
{
    return rows->half ? f32_of_f16(((const uint16_t *)rows->at)[at])
                      : ((const float *)rows->at)[at];
}

struct attention_rows attention_keys_from(const struct kernel_args *args,
                                          const struct attention_item *it, int64_t first);
struct attention_rows attention_values_from(const struct kernel_args *args,
                                            const struct attention_item *it, int64_t first);

/* Writes an item's rows of all_k and all_v. */
void attention_keep(const struct kernel_args *args, const struct attention_item *it);

/* Where a block of keys from `first` ends: none has keys of the past and new ones. */
static inline int64_t attention_block_end(const struct attention_params *p, int64_t first,
                                          int64_t end)
{
    return min_i64(first + ATTENTION_KEYS, first < p->past ? min_i64(p->past, end) : end);
}

/* What key `j` has added to its scores for its token. */
static inline float attention_token(const struct kernel_args *args, const struct attention_item *it,
                                    int64_t j)
{
    const struct attention_params *p = args->params;
    const int64_t t = atc_read_index(args->src[ATTENTION_TOKENS], it->tokens + j, p->token_item);
    if (p->linear)
        return (1 - (float)t) * (float)p->fill;
    return t > 0 ? 0 : (float)p->fill;
}

/* Floats of the parts of the scratch: queries, scores, panels of keys, panels of values, tokens,
 * and rows that are widened or rounded before they are packed.
 */
struct attention_scratch {
    int64_t q, scores, k, v, tokens, wide;
};

struct attention_scratch attention_scratch(const struct attention_params *p);

/* attention on vectors, whose blocks are multiplied by the micro-kernels of `products`. */
typedef void attention_run_fn(const struct kernel_args *args, const struct matmul_isa *products);
attention_run_fn attention_run_sse2, attention_run_neon, attention_run_avx2, attention_run_avx512f;

/* Keys that row `row` of an item sees. */
static inline int64_t attention_keys(const struct attention_params *p,
                                     const struct attention_item *it, int64_t row)
{
    const int64_t query = it->query + row * it->query_step;
    return p->causal ? min_i64(p->past + query + 1, p->kv_len) : p->kv_len;
}

#endif
