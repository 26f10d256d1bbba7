/* int4_matmul: y = x · Wᵀ, W[n, k] = (w[n, k] − zero) · scale, one zero and scale for a block of k.
 *
 *     x       [m, k] float32
 *     w       [⌈n/16⌉, K/8, 16, 4] bytes, K = ⌈k/block⌉ · block: a byte has an even k in its low
 * half, the odd one behind it in the high half; four bytes are eight k of a column scales  [⌈n/16⌉,
 * K/block, 16] float32 zeros   [⌈n/16⌉, K/block, 16] bytes; optional: 8 y       [m, n] float32
 *
 * A block of x becomes integers, in steps of its largest magnitude over a power of 2, and these
 * become signed bytes: three, the digits of a number to the base 256, whose error is below that of
 * float32 sums; or one, where the model allows 8 bits. Products of integers are exact, and their
 * sums the same on every instruction set; those of blocks are added up in float32.
 *
 * A block that has infinities counts them as 1, its other numbers as 0, and its step is infinite.
 * One whose numbers are all below 2⁻¹⁰⁰ is 0.
 *
 * Where rows are many, some instruction sets make floats of the weights instead.
 */
#ifndef ATC_INT4_MATMUL_H
#define ATC_INT4_MATMUL_H

#include "core/pieces.h"

enum {
    INT4_PANEL = 16,     /* columns that lie side by side */
    INT4_STEP = 8,       /* k of four bytes */
    INT4_BYTES = 64,     /* of a panel's step */
    INT4_MAX_ROWS = 6,   /* of a tile */
    INT4_MAX_PANELS = 2, /* of a tile */
    INT4_MAX_BLOCK = 1024,
    INT4_RUN = 32, /* steps of a panel that are floats at a time, for rows that are many */
    INT4_MANY_ROWS = 8
};

#define INT4_MATMUL_FIELDS(I64, I64S, F64, ENUM) I64(m) I64(k) I64(n) I64(block) I64(digits)
DECLARE_PARAMS(int4_matmul, INT4_MATMUL_FIELDS)

enum { INT4_X, INT4_W, INT4_SCALES, INT4_ZEROS, INT4_OPERANDS };

/* What a block of a row of x is multiplied by, the sum of its integers, and what the sums of its
 * digits begin with: 8 off each number of w, which is the zero point where there is no other.
 */
struct int4_steps {
    float step, sum;
    int32_t start[3];
};

/* Some rows of x by one or two panels of w. */
struct int4_tile {
    struct atc_meter *meter;
    const int8_t *x; /* [K/8][2][digits][4]: even and odd k of a step, digits from the lowest on */
    int64_t x_row;
    const struct int4_steps *steps; /* a row has `blocks` */
    const uint8_t *w;
    const float *scales;
    const uint8_t *zeros; /* or NULL */
    int64_t blocks, block_steps;
    float *y;
    int64_t y_row, last_columns; /* of the last panel */
};

/* What an ISA brings for a number of digits: micro-kernels by panels and rows. */
typedef void (*int4_micro)(const struct int4_tile *tile);
struct int4_isa {
    int max_panels, max_rows;
    const int4_micro *micro; /* [panels - 1][rows - 1] */
};

/* How the work is cut: rows of x, as bytes, stay in L2 while panels of w pass over them. */
struct int4_blocking {
    int64_t blocks, row_bytes;
    int64_t chunk_rows, chunks;
    int64_t panels, group, groups; /* panels; of one item; items a chunk */
};

struct int4_blocking int4_block(const struct int4_matmul_params *p, const struct atc_cpu *cpu);

/* Where the operands of a panel begin. */
struct int4_panel {
    const uint8_t *w;
    const float *scales;
    const uint8_t *zeros; /* or NULL */
};

static inline struct int4_panel int4_panel_at(const struct kernel_args *args,
                                              const struct int4_blocking *b, int64_t panel)
{
    const struct int4_matmul_params *p = args->params;
    const int64_t steps = panel * b->blocks * INT4_PANEL;
    const uint8_t *zeros = args->src[INT4_ZEROS];
    return (struct int4_panel){
        .w = (const uint8_t *)args->src[INT4_W] + steps * (p->block / 2),
        .scales = (const float *)args->src[INT4_SCALES] + steps,
        .zeros = zeros == NULL ? NULL : zeros + steps,
    };
}

#endif
