/* Walking operands that broadcast: dims of the result, row-major, and for each source the elements
 * to step along each dim, 0 where it is broadcast. The work is cut into planes of rows.
 */
#ifndef ATC_BROADCAST_H
#define ATC_BROADCAST_H

#include "core/kernel.h"

enum {
    BROADCAST_SOURCES = 3,
    BROADCAST_CHUNK = 1 << 13, /* elements of a work item, more or less */
};

struct broadcast {
    int64_t rank;
    const int64_t *dims;
    int n_src;
    const int64_t *strides[BROADCAST_SOURCES];
};

/* `rows` rows of `cols` elements: element (r, c) of source s lies at
 * src[s] + r · row_stride[s] + c · col_stride[s], of the result at dst + r · cols + c.
 */
struct plane {
    int64_t rows, cols, dst;
    int64_t src[BROADCAST_SOURCES], row_stride[BROADCAST_SOURCES], col_stride[BROADCAST_SOURCES];
};

static inline int64_t broadcast_rows(const struct broadcast *b)
{
    return atc_product(b->dims, b->rank - 1);
}

/* How rows are dealt: long ones in parts, short ones several at a time. */
struct broadcast_deal {
    int64_t rows, cols, parts, rows_each;
};

static inline struct broadcast_deal broadcast_deal(const struct broadcast *b)
{
    struct broadcast_deal d = {.rows = broadcast_rows(b), .cols = b->dims[b->rank - 1]};
    d.parts = (d.cols + BROADCAST_CHUNK - 1) / BROADCAST_CHUNK;
    d.rows_each = d.cols > 0 && d.cols < BROADCAST_CHUNK ? BROADCAST_CHUNK / d.cols : 1;
    return d;
}

static inline int64_t broadcast_items(const struct broadcast *b)
{
    const struct broadcast_deal d = broadcast_deal(b);
    return (d.rows + d.rows_each - 1) / d.rows_each * d.parts;
}

static inline int64_t broadcast_elements(const struct broadcast *b)
{
    return atc_mul(broadcast_rows(b), b->dims[b->rank - 1]);
}

/* Elements that a source must have; a stride is never negative. ATC_TOO_BIG if there is no telling.
 */
static inline int64_t broadcast_reach(const struct broadcast *b, int source)
{
    int64_t last = 0;
    if (broadcast_elements(b) == 0)
        return 0;
    for (int64_t i = 0; i < b->rank; i++)
        last = atc_add(last, atc_mul(b->dims[i] - 1, b->strides[source][i]));
    return atc_add(last, 1);
}

/* True if a source is walked as the result is: row-major, nothing broadcast. */
static inline bool broadcast_is_dense(const struct broadcast *b, int source)
{
    int64_t step = 1;
    for (int64_t i = b->rank - 1; i >= 0; i--) {
        if (b->dims[i] > 1 && b->strides[source][i] != step)
            return false;
        step = atc_mul(step, b->dims[i]);
    }
    return true;
}

/* NULL, or why dims and strides must not be walked. Steps along the innermost dim are 0 or 1. The
 * operands that are walked are the task's first ones, if the result may be one of them.
 */
static inline const char *broadcast_check(const struct task_view *task, const struct broadcast *b)
{
    if (b->rank < 1 || !atc_dims_ok(b->dims, b->rank))
        return "rank or a size is out of range";
    for (int s = 0; s < b->n_src; s++)
        if (!atc_sizes_ok(b->strides[s], (int)b->rank, 0) || b->strides[s][b->rank - 1] > 1)
            return "a stride is out of range";
    for (int s = 0; s < b->n_src && broadcast_elements(b) > 0; s++)
        if (atc_same_memory(task->src + s, task->dst) && !broadcast_is_dense(b, s))
            return "a source lies where the result goes, in other steps";
    return NULL;
}

/* The planes of work items [begin, end), one after the other. */
struct broadcast_walk {
    const struct broadcast *b;
    struct broadcast_deal deal;
    int64_t item, end;     /* items to come */
    int64_t row, last_row; /* rows to come of the item at work */
    int64_t part;
};

static inline struct broadcast_walk broadcast_begin(const struct broadcast *b,
                                                    const struct kernel_args *args)
{
    return (struct broadcast_walk){
        .b = b, .deal = broadcast_deal(b), .item = args->begin, .end = args->end};
}

/* The next plane; false at the end. A plane's rows lie along the second innermost dim. */
static inline bool broadcast_next(struct broadcast_walk *w, struct plane *plane)
{
    const struct broadcast *b = w->b;
    const int64_t inner = b->rank - 1;
    if (w->row == w->last_row) {
        if (w->item == w->end)
            return false;
        /* Neighbouring items of whole rows are walked as one. */
        const int64_t taken = w->deal.parts == 1 ? w->end - w->item : 1;
        w->part = w->item % w->deal.parts;
        w->row = w->item / w->deal.parts * w->deal.rows_each;
        w->last_row = w->row + taken * w->deal.rows_each;
        if (w->last_row > w->deal.rows)
            w->last_row = w->deal.rows;
        w->item += taken;
    }
    const int64_t first_col = w->part * BROADCAST_CHUNK, cols = w->deal.cols - first_col;
    plane->rows = w->last_row - w->row;
    plane->cols = w->deal.parts > 1 && cols > BROADCAST_CHUNK ? BROADCAST_CHUNK : cols;
    plane->dst = w->row * w->deal.cols + first_col;
    for (int s = 0; s < b->n_src; s++) {
        plane->col_stride[s] = b->strides[s][inner];
        plane->row_stride[s] = inner > 0 ? b->strides[s][inner - 1] : 0;
        plane->src[s] = first_col * plane->col_stride[s];
    }
    int64_t rest = w->row;
    for (int64_t i = inner - 1; i >= 0; i--) {
        const int64_t at = rest % b->dims[i];
        rest /= b->dims[i];
        if (i == inner - 1 && plane->rows > b->dims[i] - at)
            plane->rows = b->dims[i] - at;
        for (int s = 0; s < b->n_src; s++)
            plane->src[s] += at * b->strides[s][i];
    }
    w->row += plane->rows;
    return true;
}

#endif
