/* depthwise2d: activation(conv(x, w) + bias + residual) with one filter a channel.
 *
 *     x, residual, y  NC1HWC0, C0 = 16; the residual may be the destination itself
 *     w               C1HWC0: [c1, kh, kw, 16], of the type that `weights` names
 *     bias            [c], optional
 *     scale           [c], a factor of each channel's weights, optional; of 16-bit weights only
 */
#ifndef ATC_DEPTHWISE2D_H
#define ATC_DEPTHWISE2D_H

#include "simd/activation.h"
#include "core/kernel.h"
#include "matmul/widen.h"

enum { DW_C0 = 16 };

#define DEPTHWISE2D_FIELDS(I64, I64S, F64, ENUM)                                                   \
    I64(n) I64(c) I64(h) I64(w) I64(m) I64(oh) I64(ow) I64(kh) I64(kw) I64(sh) I64(sw) I64(dh)     \
    I64(dw) I64(pt) I64(pl) ENUM(weights, weight_types) ENUM(activation, activation_names)         \
    F64(alpha) F64(beta)
DECLARE_PARAMS(depthwise2d, DEPTHWISE2D_FIELDS)

enum { DW_X, DW_W, DW_BIAS, DW_RESIDUAL, DW_SCALE, DW_OPERANDS };

/* An item is DW_ROWS rows of results of one block of channels of one picture. */
enum { DW_ROWS = 8 };

static inline int64_t dw_chunks(const struct depthwise2d_params *p)
{
    return (p->oh + DW_ROWS - 1) / DW_ROWS;
}

/* The rows of results that an item makes, and where its block lies. */
struct dw_item {
    int64_t first_row, end_row;
    const float *x; /* the plane of the block */
    const float *w;
    const float *residual; /* NULL: none */
    float *y;
    float bias[DW_C0];
};

/* Weights of 16 bits go through the scratch. */
struct dw_item dw_item_at(const struct kernel_args *args, int64_t item, widen_fn widen);

/* Results whose taps k0 … k1 − 1 of `k`, at `stride` and `dilation`, all lie inside [0, size). */
struct dw_range {
    int64_t begin, end;
};

static inline struct dw_range dw_taps_inside(int64_t start, int64_t dilation, int64_t k,
                                             int64_t size)
{
    struct dw_range taps = {0, k};
    if (start < 0)
        taps.begin = (-start + dilation - 1) / dilation;
    if (start + (k - 1) * dilation >= size)
        taps.end = start >= size ? 0 : (size - start + dilation - 1) / dilation;
    return taps;
}

#endif
