/* recurrent: the steps of LSTM, GRU and RNN; the products with their inputs are computed already.
 *
 *     x     [steps, batch, directions, gates, hidden]: x·Wᵀ and the biases
 *     r     [directions, gates, hidden, hidden], steps of k by columns; where r_packed is 1, the
 *           last two dims in FRACTAL_NZ with C0 = 16
 *     rb    [directions, hidden]: what GRU adds to h·Rᵀ before the reset gate
 *     p     [directions, 3, hidden]: LSTM's peepholes i, o, f; optional
 *     lens  [batch], int32: steps of each row; optional. A row without steps ends with zeros, as in
 *           ONNX Runtime
 *     h, c  [directions, batch, hidden]: where it begins; optional: zero
 *     y     [steps, directions, batch, hidden], zero beyond a row's last step
 *     y_h, y_c  like h: where it ends
 *
 * layout 1 has the batch first: x and y begin with [batch, steps], h and c with [batch]. Gates come
 * in ONNX's order: i o f c, z r h. The arguments y, y_h and y_c say which results are required: the
 * number of the destination + 1, or 0.
 *
 *     lstm  i, f, o, g = act(x + h·Rᵀ + p·c)   c = f·c + i·g   h = o · act(c)
 *     gru   z, r = act(x + h·Rᵀ)   g = act(x + (r·h)·Rᵀ), or act(x + r·(h·Rᵀ + rb))
 *           h = (1 − z)·g + z·h
 *     rnn   h = act(x + h·Rᵀ)
 */
#ifndef ATC_RECURRENT_H
#define ATC_RECURRENT_H

#include "simd/activation.h"
#include "core/kernel.h"

enum recurrent_kind { RECURRENT_LSTM, RECURRENT_GRU, RECURRENT_RNN };
extern const char *const recurrent_kinds[];

enum {
    REC_X,
    REC_R,
    REC_RB,
    REC_P,
    REC_LENS,
    REC_H,
    REC_C,
    REC_OPERANDS,
};

enum {
    REC_PANEL = 16, /* columns in a panel of packed r: C0 of FRACTAL_NZ */
    REC_ROWS = 4,   /* rows of the batch in one work item */
    REC_ACTS = 3,   /* activations of a direction */
};

/* act0 to act2 are f, g and h of the first direction, act3 to act5 of the second. */
#define RECURRENT_FIELDS(I64, I64S, F64, ENUM)                                                     \
    ENUM(kind, recurrent_kinds)                                                                    \
    I64(directions) I64(reverse) I64(steps) I64(batch) I64(hidden) I64(layout) I64(r_packed)       \
        I64(linear_before_reset) I64(input_forget) I64(y) I64(y_h) I64(y_c) F64(clip)              \
            ENUM(act0, activation_names) ENUM(act1, activation_names) ENUM(act2, activation_names) \
                ENUM(act3, activation_names) ENUM(act4, activation_names)                          \
                    ENUM(act5, activation_names) F64(alpha0) F64(alpha1) F64(alpha2) F64(alpha3)   \
                        F64(alpha4) F64(alpha5) F64(beta0) F64(beta1) F64(beta2) F64(beta3)        \
                            F64(beta4) F64(beta5)
DECLARE_PARAMS(recurrent, RECURRENT_FIELDS)

struct recurrent_act {
    enum activation kind;
    float alpha, beta;
};

/* One row of the batch in one direction: where its operands lie. */
struct recurrent_row {
    int64_t steps;        /* its own */
    const float *x;       /* of step 0, [gates, hidden] */
    const float *h, *c;   /* NULL: zero */
    float *y, *y_h, *y_c; /* NULL: not required; y of step 0 */
};

/* Some rows of one direction, as a work item names them. */
struct recurrent_item {
    int64_t direction, row, rows;
    bool reverse;
    int64_t x_step, y_step; /* floats from step to step */
    const float *r, *rb, *p;
    struct recurrent_act act[REC_ACTS];
};

static inline int64_t recurrent_gates(const struct recurrent_params *p)
{
    return p->kind == RECURRENT_LSTM ? 4 : p->kind == RECURRENT_GRU ? 3 : 1;
}

/* hidden, up to whole panels */
static inline int64_t recurrent_width(const struct recurrent_params *p)
{
    return ceil_div(p->hidden, REC_PANEL) * REC_PANEL;
}

/* Floats of one gate's r. */
static inline int64_t recurrent_gate_floats(const struct recurrent_params *p)
{
    const int64_t side = p->r_packed == 1 ? recurrent_width(p) : p->hidden;
    return side * side;
}

struct recurrent_item recurrent_item_at(const struct kernel_args *args, int64_t item);
struct recurrent_row recurrent_row_at(const struct kernel_args *args,
                                      const struct recurrent_item *item, int64_t row);

#endif
