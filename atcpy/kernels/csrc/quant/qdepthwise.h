/* qdepthwise: the convolution of qgemm.h with one filter a channel.
 *
 *     x, y  NC1HWC0, C0 = 16
 *     w     C1HWC0: [c1, kh, kw, 16]
 *
 * The other operands, and the types of y, are those of qgemm.
 */
#ifndef ATC_QDEPTHWISE_H
#define ATC_QDEPTHWISE_H

#include "quant/qgemm.h"

enum { QDW_C0 = QGEMM_PANEL, QDW_COPY_END = 3 * QDW_C0 /* the last position has four pixels */ };

#define QDEPTHWISE_FIELDS(I64, I64S, F64, ENUM)                                                    \
    I64(n)                                                                                         \
    I64(c) I64(h) I64(w) I64(oh) I64(ow) I64(kh) I64(kw) I64(sh) I64(sw) I64(dh) I64(dw) I64(pt)   \
        I64(pl) I64(w_zeros) I64(w_scales) I64(x_signed) I64(w_signed) ENUM(result, qgemm_results)
DECLARE_PARAMS(qdepthwise, QDEPTHWISE_FIELDS)

/* Rows of results of one block of channels of one picture: a work item. Its windows are packed: a
 * position has in each of 16 lanes two taps, of the columns `at` and `at + dw`, so that one
 * instruction multiplies and adds both. Where weights less their zero points fit into bytes, and
 * taps are neighbours, an ISA may take four taps of a result at a position.
 */
enum { QDW_ROWS = 8, QDW_WIDTH = 8 /* results that are summed at once */ };

struct qdw_plan {
    int64_t chunks;           /* items of a plane */
    int64_t in_rows, columns; /* packed positions */
    int64_t pairs, quads;     /* of taps in a row of the kernel */
};

static inline struct qdw_plan qdw_plan(const struct qdepthwise_params *p)
{
    const int64_t rows = min_i64(QDW_ROWS, p->oh);
    const int64_t pairs = ceil_div(p->kw, 2), quads = ceil_div(p->kw, 4);
    const int64_t by_pairs = (p->ow - 1) * p->sw + (pairs - 1) * 2 * p->dw + 1;
    const int64_t by_quads = (p->ow - 1) * p->sw + quads * 4;
    return (struct qdw_plan){
        .chunks = ceil_div(p->oh, QDW_ROWS),
        .in_rows = (rows - 1) * p->sh + (p->kh - 1) * p->dh + 1,
        .columns = by_pairs > by_quads ? by_pairs : by_quads,
        .pairs = pairs,
        .quads = quads,
    };
}

/* What `results` neighbouring windows are summed up from; `in` steps by `step` words a result, the
 * weights by QDW_C0 a position.
 */
struct qdw_windows {
    const uint32_t *in;
    int64_t step;
    const int64_t *offsets; /* of the positions of a window */
    const uint32_t *weights;
    int64_t taps;
    int results;
};

/* Sums and finishes them; the tile says where to. */
typedef void (*qdw_micro)(const struct qdw_windows *windows, const struct qgemm_tile *tile);

/* Positions of four taps, of neighbouring pixels, from the pixels of some rows side by side. */
typedef void (*qdw_pack)(const uint8_t *from, uint32_t *to, int64_t positions, uint8_t flip);

/* What an ISA brings; NULL for four taps that it does not take at once. */
struct qdw_isa {
    qdw_micro pairs, quads;
    qdw_pack pack_quads;
};

#endif
