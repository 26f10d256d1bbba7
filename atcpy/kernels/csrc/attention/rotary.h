/* rotary: pairs of elements of each head, turned by the angles of its row.
 *
 *     x, y      [batch, heads, rows, head], or [batch, rows, heads, head] if `joined`
 *     cos, sin  [batch, rows, half]
 *
 * With a and b the elements i and half + i of a head, or 2i and 2i + 1 if `interleaved`:
 *
 *     a, b  ->  cos[i] * a - sin[i] * b,  sin[i] * a + cos[i] * b        i < half
 *
 * What lies behind 2 * half stays as it is. y may be x.
 */
#ifndef ATC_ROTARY_H
#define ATC_ROTARY_H

#include "core/pieces.h"

#define ROTARY_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(batch) I64(heads) I64(rows) I64(head) I64(half) I64(interleaved) I64(joined)
DECLARE_PARAMS(rotary, ROTARY_FIELDS)

enum { ROTARY_X, ROTARY_COS, ROTARY_SIN, ROTARY_OPERANDS };

/* Heads that an item makes: some kilobytes. */
static inline int64_t rotary_heads_per_item(const struct rotary_params *p)
{
    enum { ITEM_FLOATS = 4096 };
    const int64_t heads = ITEM_FLOATS / p->head;
    return heads < 1 ? 1 : heads;
}

/* One head: where it is, where it goes, its angles. */
struct rotary_row {
    const float *x, *cos, *sin;
    float *y;
};

static inline struct rotary_row rotary_row_at(const struct kernel_args *args, int64_t number)
{
    const struct rotary_params *p = args->params;
    const int64_t angles =
        p->joined ? number / p->heads : number / (p->heads * p->rows) * p->rows + number % p->rows;
    return (struct rotary_row){
        .x = (const float *)args->src[ROTARY_X] + number * p->head,
        .cos = (const float *)args->src[ROTARY_COS] + angles * p->half,
        .sin = (const float *)args->src[ROTARY_SIN] + angles * p->half,
        .y = (float *)args->dst[0] + number * p->head,
    };
}

/* The pairs from `i` on, each as far apart as `step` says of the next one and of its own other
 * half. */
static inline void rotary_pairs(const struct kernel_args *args, const struct rotary_row *row,
                                int64_t i)
{
    const struct rotary_params *p = args->params;
    const int64_t step = p->interleaved ? 2 : 1, apart = p->interleaved ? 1 : p->half;
    for (struct atc_piece piece = {i, i}; atc_next_piece(args, &piece, p->half);)
        for (i = piece.begin; i < piece.end; i++) {
            const float a = row->x[step * i], b = row->x[step * i + apart];
            row->y[step * i] = row->cos[i] * a - row->sin[i] * b;
            row->y[step * i + apart] = row->sin[i] * a + row->cos[i] * b;
        }
}

static inline void rotary_rest(const struct kernel_args *args, const struct rotary_row *row)
{
    const struct rotary_params *p = args->params;
    if (row->y != row->x)
        atc_copy(args, row->y + 2 * p->half, row->x + 2 * p->half,
                 (p->head - 2 * p->half) * (int64_t)sizeof(float));
}

#endif
