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

enum { QDW_C0 = QGEMM_PANEL };

#define QDEPTHWISE_FIELDS(I64, I64S, F64, ENUM)                                                    \
    I64(n)                                                                                         \
    I64(c) I64(h) I64(w) I64(oh) I64(ow) I64(kh) I64(kw) I64(sh) I64(sw) I64(dh) I64(dw) I64(pt)   \
        I64(pl) I64(w_zeros) I64(w_scales) I64(x_signed) I64(w_signed) ENUM(result, qgemm_results)
DECLARE_PARAMS(qdepthwise, QDEPTHWISE_FIELDS)

/* Rows of results of one block of channels of one picture: a work item. Its windows are packed: a
 * position has in each of 16 lanes two taps, of the columns `at` and `at + dw`, so that one
 * instruction multiplies and adds both.
 */
enum { QDW_ROWS = 8, QDW_WIDTH = 8 /* results that are summed at once */ };

struct qdw_plan {
    int64_t chunks;           /* items of a plane */
    int64_t in_rows, columns; /* packed positions */
    int64_t pairs;            /* of taps in a row of the kernel */
};

static inline struct qdw_plan qdw_plan(const struct qdepthwise_params *p)
{
    const int64_t rows = min_i64(QDW_ROWS, p->oh), pairs = ceil_div(p->kw, 2);
    return (struct qdw_plan){
        .chunks = ceil_div(p->oh, QDW_ROWS),
        .in_rows = (rows - 1) * p->sh + (p->kh - 1) * p->dh + 1,
        .columns = (p->ow - 1) * p->sw + (pairs - 1) * 2 * p->dw + 1,
        .pairs = pairs,
    };
}

/* What `results` neighbouring windows are summed up from; `in` steps by `step` words a result. */
struct qdw_windows {
    const uint32_t *in;
    int64_t step;
    const int64_t *offsets; /* of the pairs of taps */
    const uint32_t *weights;
    int64_t taps;
    int results;
};

/* Sums and finishes them; the tile says where to. */
typedef void (*qdw_micro)(const struct qdw_windows *windows, const struct qgemm_tile *tile);

#endif
