/* qgemm: y = finish(Σ (x − x_zero)·(w − w_zero) + bias), 8-bit integers summed in 32 bits:
 * convolution in two spatial dims, and the product of matrices, which is a convolution of one tap
 * whose pixels are rows.
 *
 *     x        [n, ⌈c/C0⌉, h, w, C0] with C0 = src_c0: NCHW (1), NC1HWC0 (16), rows of a matrix (c)
 *     x_zero   one of x's type; optional: 0
 *     w        where w_packed: N1K1N0K0, [group · ⌈mg/16⌉, ⌈K/4⌉ + 1, 16, 4]; the last row has the
 *              sum of each of the 16 columns, an int32. Else [n or 1, cg, m], row-major
 *     w_zero   one, or m, of w's type; optional: 0
 *     bias     [m], int32, or float32 where y is; optional
 *     x_scale  one float32; absent where y is int32
 *     w_scale  one, or m, float32
 *     y_scale  one float32; absent where y is float32
 *     y_zero   one of y's type; optional: 0
 *     addend   8 bits, like y in all; optional
 *     y        [n, ⌈m/C0⌉, oh, ow, C0] with C0 = dst_c0: 1, 16 or m
 *
 * Type of y: int32, the sums; float32, sum · (x_scale · w_scale) + bias; 8 bits, round(sum ·
 * (x_scale · w_scale / y_scale)) + y_zero, halves to even, saturated. Sums wrap around as int32 do,
 * and are the same on every instruction set.
 *
 * With an addend, y = round(fma(y' − y_zero, product_scale, fma(addend, addend_scale, sum_offset)))
 * + sum_zero, saturated, where y' is the y above, and fma rounds once, to float32: with the numbers
 * that the compiler chooses, what DequantizeLinear, Add in float32 and QuantizeLinear make of each
 * two bytes. y may lie where the addend does.
 *
 * K runs over [⌈cg/C0⌉, kh, kw, C0] with C0 = k_c0, which is src_c0, or 4 where x is NCHW of up to
 * 4 channels. Channels beyond c in the last block may be anything.
 */
#ifndef ATC_QGEMM_H
#define ATC_QGEMM_H

#include "core/pieces.h"

enum {
    QGEMM_PANEL = 16,     /* columns of w that lie side by side */
    QGEMM_K0 = 4,         /* steps of k that do */
    QGEMM_BLOCK = 64,     /* bytes of a panel's row: QGEMM_PANEL · QGEMM_K0 */
    QGEMM_MAX_BLOCKS = 4, /* panels of a tile on any ISA */
    QGEMM_MAX_ROWS = 14,  /* rows of a tile, in two parts; of AMX QGEMM_MAX_TILE_ROWS in one */
    QGEMM_PART_ROWS = 7,
    QGEMM_MAX_TILE_ROWS = 32, /* of a tile on any ISA */
};

/* What products of integers, however they are computed, have in common. */
#define QGEMM_TYPES(I64, ENUM)                                                                     \
    I64(w_zeros) I64(w_scales) I64(x_signed) I64(w_signed) ENUM(result, qgemm_results)
#define QGEMM_ADDENDS(I64, F64)                                                                    \
    F64(product_scale) F64(addend_scale) F64(sum_offset) I64(sum_zero)
#define QGEMM_FIELDS(I64, I64S, F64, ENUM)                                                         \
    I64(n)                                                                                         \
    I64(c) I64(h) I64(w) I64(m) I64(oh) I64(ow) I64(kh) I64(kw) I64(sh) I64(sw) I64(dh) I64(dw)    \
        I64(pt) I64(pl) I64(group) I64(cg) I64(mg) I64(src_c0) I64(k_c0) I64(dst_c0) I64(w_packed) \
            I64(w_batched) QGEMM_TYPES(I64, ENUM) QGEMM_ADDENDS(I64, F64)
DECLARE_PARAMS(qgemm, QGEMM_FIELDS)

enum {
    QGEMM_X,
    QGEMM_X_ZERO,
    QGEMM_W,
    QGEMM_W_ZERO,
    QGEMM_BIAS,
    QGEMM_X_SCALE,
    QGEMM_W_SCALE,
    QGEMM_Y_SCALE,
    QGEMM_Y_ZERO,
    QGEMM_SHARED_OPERANDS, /* those of qdepthwise too */
    QGEMM_ADDEND = QGEMM_SHARED_OPERANDS,
    QGEMM_OPERANDS
};

/* What becomes of a sum. */
enum qgemm_result { QGEMM_I32, QGEMM_F32, QGEMM_I8, QGEMM_U8 }; /* in the order of qgemm_results */

/* What a panel's columns need to finish their sums. */
struct qgemm_columns {
    int32_t start[QGEMM_PANEL];  /* bias − x_zero · Σ (w − w_zero) */
    int32_t w_zero[QGEMM_PANEL]; /* times the sum of the row of x, to be taken off */
    float scale[QGEMM_PANEL];
    float bias[QGEMM_PANEL];
    bool is_bounded; /* no sum that is scaled reaches the limits of int32 */
};

/* How an addend is added, in steps of the sum. */
struct qgemm_sum {
    float product_scale, addend_scale, offset;
    int32_t zero;
};

/* Panels that one tile reads. */
struct qgemm_panels {
    const uint8_t *w;
    int64_t w_panel; /* bytes from one to the next */
    int blocks;
    int64_t k1;
    const int64_t *steps; /* where each lies in x */
};

/* Where the steps of each kind lie in a schedule. In [0, pairs_end), the first of four steps side
 * by side whose products, two steps added, fit into 16 bits; in [fours, singles), of four whose
 * products fit one by one; in [singles, singles_end), single steps whose products fit; in [wide,
 * wide_end), those whose products need 32 bits.
 */
struct qgemm_kinds {
    int32_t pairs_end, fours, singles, singles_end, wide, wide_end;
};

/* The steps of panels by how AVX2 multiplies them. */
struct qgemm_schedule {
    struct qgemm_kinds kinds;
    bool is_wide; /* so many are wide that all steps in 16 bits take less time */
    uint16_t at[];
};

enum {
    QGEMM_QUAD = 4,             /* steps that are sorted together */
    QGEMM_SCHEDULED = 2,        /* panels that have one schedule */
    QGEMM_LEAST_SCHEDULED = 7,  /* results for which it pays to make one */
    QGEMM_MOST_STEPS = 1 << 16, /* of a panel that has one */
};

static inline int64_t qgemm_schedule_bytes(int64_t k1)
{
    return ceil_div((int64_t)sizeof(struct qgemm_schedule) + 3 * k1, 64) * 64;
}

/* Some rows of x by a few panels of w, over all of k: the work of one micro-kernel call. Rows
 * lie x_row bytes apart, those from QGEMM_PART_ROWS on behind a base of their own; four steps of k
 * lie at the offset that `steps` has. Bytes of x have the sign that the ISA multiplies once
 * `x_flip` changed their top bits, w's are signed.
 */
struct qgemm_tile {
    const struct kernel_args *args;
    const uint8_t *x[2];
    int64_t x_row;
    int64_t rows, all_rows; /* of a tile; of those that the ISA's begin_rows got */
    /* For an ISA that takes_lines: tiles of this call, and of earlier calls with the same panels;
     * rows of x that lie evenly in a line, rows left in the first line, bytes from line to line.
     */
    int64_t tiles, tiles_before, line, in_line, x_line;
    const int64_t *steps; /* [k1] */
    uint32_t x_flip;
    bool x_signed; /* bytes of x are signed then */
    const uint8_t *w;
    int64_t w_panel;                       /* bytes from one panel to the next */
    const struct qgemm_schedule *schedule; /* of these panels; or NULL */
    const int16_t *wide_w;                 /* what the ISA's `widen` made of them; or NULL */
    int16_t *wide_x;                       /* room for rows of x in 16 bits */
    const uint8_t *next; /* panels to be fetched into L2, which are read next; or w */
    int64_t k1;          /* runs of QGEMM_K0 steps */
    const struct qgemm_columns *columns; /* one a panel */
    const int32_t *row_sums;             /* of x; NULL where every w_zero is 0 */
    uint8_t *dst;
    int64_t dst_row, dst_panel; /* bytes */
    int64_t last_columns;       /* of the last panel that dst has room for */
    enum qgemm_result result;
    int32_t y_zero;
    const uint8_t *addend; /* lies as dst does; or NULL */
    const struct qgemm_sum *sum;
};

/* The row of x that a loop over lines has come to, and the rows left in its line. */
struct qgemm_cursor {
    const uint8_t *x;
    int64_t left;
};

static inline struct qgemm_cursor qgemm_first_row(const struct qgemm_tile *t)
{
    return (struct qgemm_cursor){t->x[0], t->in_line};
}

/* Moves the cursor to the next row, and returns the row that it leaves. */
static inline const uint8_t *qgemm_next_row(const struct qgemm_tile *t, struct qgemm_cursor *cursor)
{
    const uint8_t *x = cursor->x;
    if (--cursor->left == 0)
        *cursor = (struct qgemm_cursor){x + t->x_line - (t->line - 1) * t->x_row, t->line};
    else
        cursor->x += t->x_row;
    return x;
}

/* Which bytes of x an ISA multiplies by the signed ones of w. Others become such by another top
 * bit, and their zero point with them.
 */
enum qgemm_signs { QGEMM_UNSIGNED_X, QGEMM_SIGNED_X, QGEMM_ANY_X };

/* What an ISA brings: micro-kernels by blocks and rows. */
typedef void (*qgemm_micro)(const struct qgemm_tile *tile);
struct qgemm_isa {
    int max_blocks, max_rows, row_step;
    int byte_rows;            /* rows of a tile whose weights are bytes, where it takes_lines */
    const qgemm_micro *micro; /* [blocks - 1][⌈rows / row_step⌉ - 1] */
    enum qgemm_signs signs;
    /* Called before micro-kernels run over some rows of x, which all lie behind each other; or
     * NULL.
     */
    void (*begin_rows)(int64_t rows);
    bool takes_lines; /* a call takes several tiles, whose rows may lie in several lines */
    /* Makes the schedule of up to max_blocks panels of up to QGEMM_MOST_STEPS steps; or NULL. */
    void (*schedule)(const struct qgemm_panels *w, struct qgemm_schedule *to);
    void (*widen)(const struct qgemm_panels *w, int16_t *to); /* weights to 16 bits */
};

void qgemm_drive(const struct kernel_args *args, const struct qgemm_isa *isa);

/* What the checkers of integer products share: types, scales, zero points and bias. */
struct qgemm_types {
    int64_t x_signed, w_signed;
    enum atc_dtype y;
    int64_t columns, w_zeros, w_scales;
};

const char *qgemm_check_operands(const struct task_view *task, const struct qgemm_types *types);
extern const char *const qgemm_results[];

/* What qgemm's checker says of a task with its arguments, how many products it sums, and what it
 * costs.
 */
const char *qgemm_problem(const struct task_view *task);
int64_t qgemm_products(const void *params);
struct kernel_cost qgemm_cost(const void *params, const struct atc_cpu *cpu);

/* A zero point out of `count`, one or one a column; 0 where they are left out. */
static inline int32_t qgemm_zero_at(const uint8_t *zeros, int64_t count, int64_t at, bool is_signed)
{
    if (zeros == NULL)
        return 0;
    const uint8_t byte = zeros[count == 1 ? 0 : at];
    return is_signed ? (int8_t)byte : byte;
}

/* How the addend of a task, if it has one, is added. */
struct qgemm_sum qgemm_sum_of(const struct qgemm_params *p, const void *addend);

/* Scales and biases of `columns` columns from `first` on; the rest of `to` is left alone. */
void qgemm_fill(struct qgemm_columns *to, const struct kernel_args *args, enum qgemm_result result,
                int64_t first, int64_t columns, int64_t w_scales);

static inline enum atc_dtype qgemm_result_type(const struct qgemm_params *p)
{
    static const enum atc_dtype types[] = {DTYPE_I32, DTYPE_F32, DTYPE_I8, DTYPE_U8};
    return types[p->result];
}

static inline int64_t qgemm_k(const struct qgemm_params *p)
{
    return ceil_div(p->cg, p->k_c0) * p->k_c0 * p->kh * p->kw;
}

static inline int64_t qgemm_k1(const struct qgemm_params *p)
{
    return ceil_div(qgemm_k(p), QGEMM_K0);
}

/* Of these, those that are multiplied: a window of one tap ends with the channels beyond the last
 * one, whose weights are 0.
 */
static inline int64_t qgemm_multiplied_k1(const struct qgemm_params *p)
{
    return p->kh == 1 && p->kw == 1 ? ceil_div(p->cg, QGEMM_K0) : qgemm_k1(p);
}

/* True if four steps of a tile lie one behind the other, as they do mostly. */
static inline bool qgemm_side_by_side(const int64_t *steps)
{
    return steps[3] - steps[0] == 3 * QGEMM_K0;
}

/* Copies of x and w in the order that micro-kernels read: qgemm_pack.c. What lies outside the
 * picture is `outside`.
 */
struct qgemm_source {
    const struct kernel_args *args;
    const struct qgemm_params *p;
    const uint8_t *x;
    uint8_t outside;
};

/* Rows `first` … of picture n and group g, `row_bytes` each, zero beyond k: windows of pixels, or
 * rows of a matrix.
 */
void qgemm_pack_rows(const struct qgemm_source *s, int64_t n, int64_t g, int64_t first,
                     int64_t rows, uint8_t *to, int64_t row_bytes);

/* A part of a picture: [⌈cg/C0⌉, rows, columns, C0] with C0 = k_c0, from a pixel that may lie
 * outside. */
struct qgemm_picture {
    int64_t y, x, rows, columns;
    int64_t plane; /* bytes of the copy from one block of channels to the next */
};

void qgemm_copy_picture(const struct qgemm_source *s, int64_t n, int64_t g,
                        const struct qgemm_picture *part, uint8_t *to);

/* A panel of ones, and zeros where k counts channels that are not there. */
void qgemm_ones(const struct kernel_args *args, uint8_t *to);

/* The sum of the bytes of a row of x whose factor in the panel of ones is 1, unsigned once `flip`
 * changed their top bits. Steps are those of qgemm_tile.
 */
uint32_t qgemm_sum_row(const struct kernel_args *args, const uint8_t *x, const int64_t *steps,
                       int64_t k1, const uint8_t *ones, uint8_t flip);

/* Panel `panel` of row-major [cg, m] weights, in the packed form, sums included, as signed bytes.
 */
void qgemm_pack_panel(const struct kernel_args *args, const uint8_t *w, int64_t panel, uint8_t *to);

/* A packed panel of unsigned bytes as signed ones; `ones` is that of qgemm_ones. */
void qgemm_sign_panel(const struct kernel_args *args, const uint8_t *panel, const uint8_t *ones,
                      uint8_t *to);

#endif
