/* qwinograd2d: what qgemm computes of 3x3 filters at stride 1 in one group, by Winograd's
 * F(4x4, 3x3) on integers: 36 products of 16 bits for a tile of 4x4 results and a pair of channels,
 * where the definition takes 144 of 8 bits. Operands, weights and what becomes of the sums are
 * those of qgemm, with x and y in NC1HWC0 and whole blocks of input channels.
 *
 *     y = Aᵀ [Σ (G g Gᵀ) ∘ (Bᵀ d B)] A
 *
 * with g, a filter of 3x3 less its zero point, and d, 6x6 inputs less theirs, summed over channels.
 *
 * The points of the interpolation are 0, ±1, ±2 and infinity. G has fractions: its rows are taken
 * 24, 12, 12, 24, 24 and 6 times, and the columns of Aᵀ 1, 2, 2, 1, 1 and 4 times, which makes all
 * of them integers and the results 24 · 24 = 576 times as large:
 *
 *          6  0  0             4  0 -5  0  1  0
 *         -2 -2 -2             0 -4 -4  1  1  0             1  2  2  1  1  0
 *     G = -2  2 -2        Bᵀ = 0  4 -4 -1  1  0        Aᵀ = 0  2 -2  2 -2  0
 *          1  2  4             0 -2 -1  2  1  0             0  2  2  4  4  0
 *          1 -2  4             0  2 -1 -2  1  0             0  2 -2  8 -8  4
 *          0  0  6             0  4  0 -5  0  1
 *
 * Transformed inputs are within 100 · 255 and transformed filters within 49 · 255: both have 16
 * bits. All else is computed modulo 2^32, in which 576 · y times the inverse of 9 is 64 · y. Its
 * upper 26 bits are y modulo 2^26, so that y is exact if it can only have 2^26 values: if 255 times
 * the sum of |w − w_zero| of each column is less than 2^26, which the compiler finds out
 * (ops/quant/qwinograd.py). Else it may be wrong by multiples of 2^26.
 *
 * A task that `falls_back` computes by the definition where tiles turn out to be few: they do not
 * pay for the transformed filters. So does each task where products of bytes are so much faster
 * than those of 16 bits that nothing is gained.
 *
 * Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2015, arXiv:1509.09308; adr/0032.
 */
#ifndef ATC_QWINOGRAD2D_H
#define ATC_QWINOGRAD2D_H

#include "quant/qgemm.h"

#define QWINOGRAD2D_SIZES(I64)                                                                     \
    I64(n) I64(c) I64(h) I64(w) I64(m) I64(oh) I64(ow) I64(pt) I64(pl)
#define QWINOGRAD2D_FIELDS(I64, I64S, F64, ENUM)                                                   \
    QWINOGRAD2D_SIZES(I64) I64(falls_back) QGEMM_TYPES(I64, ENUM) QGEMM_ADDENDS(I64, F64)
DECLARE_PARAMS(qwinograd2d, QWINOGRAD2D_FIELDS)

enum {
    QWINO_TILE = 4, /* results of a tile in a row or column */
    QWINO_TAPS = 3,
    QWINO_IN = QWINO_TILE + QWINO_TAPS - 1, /* inputs that they read */
    QWINO_POSITIONS = QWINO_IN * QWINO_IN,
    QWINO_GROUP = 2 * QGEMM_PANEL, /* channels of transformed inputs that lie side by side */
    QWINO_BLOCKS = 2,              /* panels whose sums are computed together */
    QWINO_SHIFT = 6,               /* 576 = 9 · 2^6 */
};

/* The same as a task of qgemm. */
struct qgemm_params qwinograd2d_definition(const struct qwinograd2d_params *p);

/* The filters from 16 input channels to a panel. */
struct qwino_filters {
    const uint8_t *w;    /* [3][3][4][16][4] */
    const uint8_t *next; /* those that are transformed next: to be prefetched */
    bool is_signed;
    const int16_t *zero; /* [16][2]: to be taken off them; NULL where all are 0 */
};

/* The inputs of a tile in one or two blocks of channels, of which rows [top, bottom) and columns
 * [left, right) are inside the picture. All others are the zero point.
 */
struct qwino_input {
    const uint8_t *x;   /* the blocks of channels */
    int64_t from;       /* bytes to the first row and column, which may be outside */
    int64_t row, plane; /* bytes from one to the next */
    int64_t top, bottom, left, right;
    int blocks;
    bool is_signed;
    int16_t zero;
};

/* Some tiles by one or two panels at one position: the work of one micro-kernel call. */
struct qwino_product {
    const int16_t *inputs;  /* [⌈c/32⌉][tiles][32] */
    int64_t group_stride;   /* from one group of channels to the next */
    const int16_t *filters; /* [c/2][16][2] */
    int64_t filter_block;   /* from one panel to the next */
    int64_t pairs;          /* of channels */
    int32_t *sums;          /* [tiles][16] */
    int64_t sum_block;      /* from one panel to the next */
};

/* The results of a tile in one panel, of which `rows` by `columns` are inside. */
struct qwino_results {
    const int32_t *sums; /* at each position, `stride` apart */
    int64_t stride;
    const int32_t *middle; /* [16]: of the values that a sum can have, 2^QWINO_SHIFT times */
    const struct qgemm_tile *finish; /* where the first result goes, and how */
    int64_t rows, columns;
    int64_t dst_row; /* bytes from one row of results to the next */
};

/* What an ISA brings. Numbers at a position lie `stride` behind those at the position before. */
typedef void (*qwino_micro)(const struct qwino_product *product);
struct qwino_isa {
    void (*filters)(const struct qwino_filters *filters, int16_t *out, int64_t stride);
    void (*input)(const struct qwino_input *tile, int16_t *out, int64_t stride);
    int max_tiles;
    const qwino_micro *micro; /* [blocks - 1][tiles - 1] */
    void (*results)(const struct qwino_results *tile);
    void (*definition)(const struct kernel_args *args); /* the row of qgemm */
};

void qwinograd2d_drive(const struct kernel_args *args, const struct qwino_isa *isa);

#endif
