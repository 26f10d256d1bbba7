/* How the work of qgemm is cut into items, and what lies in a thread's scratch. */
#ifndef ATC_QGEMM_BLOCKING_H
#define ATC_QGEMM_BLOCKING_H

#include "quant/qgemm.h"

static inline bool qgemm_is_matrix(const struct qgemm_params *p)
{
    return p->kh == 1 && p->kw == 1 && p->sh == 1 && p->sw == 1 && p->pt == 0 && p->pl == 0 &&
           p->oh == p->h && p->ow == p->w && p->group == 1;
}

/* The rows of the matrix are pixels of blocks of channels. */
static inline bool qgemm_has_pixels_as_rows(const struct qgemm_params *p)
{
    return p->src_c0 == 16 && qgemm_is_matrix(p);
}

/* Rows of [rows, c] are multiplied as they are, or copied to where their distance suits the cache.
 */
static inline bool qgemm_reads_rows(const struct qgemm_params *p)
{
    return p->src_c0 != 1 && p->src_c0 != 16;
}

/* Pixels of x that a line of results takes, from the first to the last. */
static inline int64_t qgemm_input_columns(const struct qgemm_params *p)
{
    return (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1;
}

static inline int64_t qgemm_input_rows(const struct qgemm_params *p, int64_t lines)
{
    return (lines - 1) * p->sh + (p->kh - 1) * p->dh + 1;
}

/* How x is read. */
enum qgemm_reading {
    QGEMM_ROWS,    /* of a matrix */
    QGEMM_PICTURE, /* windows where they lie; a tile has results of a line, or of two short ones */
    QGEMM_WINDOWS, /* copied side by side: none is inside a part of the picture that fits into L2 */
};

/* How the work is cut. Results are cut into chunks whose part of x stays in L2 while the panels of
 * weights pass over them; and into groups of panels, where there are too few chunks.
 */
struct qgemm_blocking {
    enum qgemm_reading reading;
    bool copied;             /* x */
    bool flipped;            /* copies of signed bytes hold unsigned ones */
    int64_t rows, row_bytes; /* results of a picture; of copied rows or windows */
    int64_t line;            /* results that lie evenly in x */
    int64_t x_row;           /* bytes from one result's part of x to the next */
    int64_t x_line;          /* and from line to line */
    int64_t unit;            /* results of which a chunk has whole ones */
    int64_t plane, pitch;    /* bytes of a picture's blocks of channels, and of its rows */
    int64_t chunk_rows, chunks;
    int64_t x_bytes;               /* copied for a chunk */
    int64_t panels, group, groups; /* panels; of one item; items a chunk */
    int64_t panel_bytes;
    bool schedules;      /* panels have schedules */
    int64_t kept_groups; /* of all weights, whose columns and schedules a thread keeps; or 1 */
};

/* Where what in a thread's scratch lies. */
struct qgemm_scratch {
    int64_t steps, row_sums, columns, ones, w, schedules, wide_w, wide_x, bytes; /* x lies first */
};

/* Groups of panels of all weights. */
static inline int64_t qgemm_all_groups(const struct qgemm_params *p, const struct qgemm_blocking *b)
{
    return atc_mul(p->w_batched == 1 ? p->n : p->group, b->groups);
}

/* The blocking for parameters that passed their checks. */
struct qgemm_blocking qgemm_block(const struct qgemm_params *p, const struct atc_cpu *cpu);

struct qgemm_scratch qgemm_scratch_of(const struct qgemm_params *p, const struct qgemm_blocking *b);

#endif
