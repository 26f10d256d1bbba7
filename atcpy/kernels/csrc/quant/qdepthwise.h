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
 * instruction multiplies and adds both. Where taps are neighbours, an ISA may read the windows
 * where they lie: two taps at once as well, or four where weights less their zero points fit into
 * bytes.
 */
enum { QDW_ROWS = 8, QDW_WIDTH = 8 /* results that are summed at once */ };

/* For windows that are read where they lie: results of a tile, four rows of four; columns of a
 * call; positions of a window, so that a call ends soon.
 */
enum { QDW_TILE = 4, QDW_SPAN = 64, QDW_MAX_QUADS = 1 << 10 };

struct qdw_plan {
    int64_t chunks;           /* items of a plane */
    int64_t in_rows, columns; /* packed positions */
    int64_t pairs, quads;     /* of taps in a row of the kernel */
    int64_t shared;           /* neighbouring results whose taps are among the same four pixels */
    int64_t weights;          /* of a row of the kernel, in vectors */
};

/* True for the windows that most networks have, for which there is code of their own. */
static inline bool qdw_is_common(const struct qdepthwise_params *p)
{
    return (p->kh == 3 || p->kh == 5) && p->kw == p->kh && p->sh <= 2 && p->sw == p->sh &&
           p->dh == 1 && p->dw == 1;
}

static inline struct qdw_plan qdw_plan(const struct qdepthwise_params *p)
{
    const int64_t rows = min_i64(QDW_ROWS, p->oh);
    const int64_t pairs = ceil_div(p->kw, 2), quads = ceil_div(p->kw, 4);
    /* With 3 taps 2 results, or 1 at stride 2; with 5 taps 4, or 2. */
    const int64_t shared = qdw_is_common(p) ? (quads * 4 - p->kw + 1) / p->sw : 1;
    return (struct qdw_plan){
        .chunks = ceil_div(p->oh, QDW_ROWS),
        .in_rows = (rows - 1) * p->sh + (p->kh - 1) * p->dh + 1,
        .columns = (p->ow - 1) * p->sw + (pairs - 1) * 2 * p->dw + 1,
        .pairs = pairs,
        .quads = quads,
        .shared = shared,
        .weights = quads * shared > pairs ? quads * shared : pairs,
    };
}

/* Windows lie in rows of neighbours, and are few. */
static inline bool qdw_may_be_direct(const struct qdepthwise_params *p, const struct qdw_plan *plan)
{
    return p->dw == 1 && p->kh * plan->quads <= QDW_MAX_QUADS;
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

/* The form of a block's weights: pairs for windows that are packed, or what an ISA makes of them
 * for windows that it reads where they lie.
 */
enum qdw_form { QDW_PAIRS, QDW_WORDS, QDW_BYTES };

/* Results [begin, end) of up to QDW_TILE rows, from x itself. */
struct qdw_lines {
    const struct qdepthwise_params *p;
    const uint8_t *const *in; /* rows of x from the first result's first tap on */
    const uint8_t *beside;    /* a pixel: what lies beside a row */
    uint8_t flip;             /* changes the top bits of both */
    enum qdw_form form;
    const uint32_t *weights;
    int64_t begin, end;
    int rows;
    int64_t dst_line; /* bytes from one row of results to the next */
};

typedef void (*qdw_direct)(const struct qdw_lines *lines, const struct qgemm_tile *tile);

/* Weights of a block: bytes [kh][kw][16] and the zero points of the channels. */
struct qdw_weights {
    const uint8_t *w;
    int32_t zeros[QDW_C0];
    bool is_signed;
};

/* Packs weights less their zero points for qdw_direct, by way of `values` [kh][kw][16], and sums
 * them up; QDW_PAIRS, and no sums, if one does not fit, or there is no code for such windows.
 */
typedef enum qdw_form (*qdw_pack)(const struct qdepthwise_params *p, const struct qdw_weights *w,
                                  uint8_t *values, uint32_t *to, uint32_t sums[QDW_C0]);

/* What an ISA brings; NULL where it reads no windows where they lie. */
struct qdw_isa {
    qdw_micro pairs;
    qdw_direct direct;
    qdw_pack pack_weights;
    bool reads_signed; /* `direct` multiplies signed bytes of x as they are */
};

#endif
