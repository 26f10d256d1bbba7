/* binary on float32 vectors. */
#ifndef ATC_BINARY_VECTOR_H
#define ATC_BINARY_VECTOR_H

#include "elementwise/binary.h"
#include "simd/vector.h"

typedef vf (*vf_op)(vf a, vf b);
typedef vm (*vm_op)(vf a, vf b);

static inline vf add(vf a, vf b)
{
    return a + b;
}

static inline vf sub(vf a, vf b)
{
    return a - b;
}

static inline vf mul(vf a, vf b)
{
    return a * b;
}

static inline vf quotient(vf a, vf b)
{
    return a / b;
}

static inline vf prelu(vf a, vf b)
{
    return vf_select(vf_lt(a, vf_set1(0.0f)), a * b, a);
}

static inline vm greater(vf a, vf b)
{
    return vf_lt(b, a);
}

static inline vm greater_or_equal(vf a, vf b)
{
    return vf_le(b, a);
}

/* One row. The operator is a constant wherever this is inlined, so there is no call in the loop. A
 * source with col_stride 0 is one element, in all lanes.
 */
static inline __attribute__((always_inline)) void row(const float *a, const float *b, void *dst,
                                                      int64_t n, bool a_moves, bool b_moves,
                                                      vf_op value, vm_op truth)
{
    const vf a_first = vf_set1(*a), b_first = vf_set1(*b);
    int64_t i = 0;
    for (; i + VF <= n; i += VF) {
        const vf x = a_moves ? vf_load(a + i) : a_first, z = b_moves ? vf_load(b + i) : b_first;
        if (value != NULL)
            vf_store((float *)dst + i, value(x, z));
        else
            vm_store((uint8_t *)dst + i, truth(x, z));
    }
    if (i < n) {
        const vf x = a_moves ? vf_load_n(a + i, n - i, 1.0f) : a_first;
        const vf z = b_moves ? vf_load_n(b + i, n - i, 1.0f) : b_first;
        if (value != NULL)
            vf_store_n((float *)dst + i, value(x, z), n - i);
        else
            vm_store_n((uint8_t *)dst + i, truth(x, z), n - i);
    }
}

static inline __attribute__((always_inline)) void run(const float *a, const float *b, void *dst,
                                                      int64_t n, bool a_moves, bool b_moves,
                                                      vf_op value, vm_op truth)
{
    if (a_moves && b_moves)
        row(a, b, dst, n, true, true, value, truth);
    else if (a_moves)
        row(a, b, dst, n, true, false, value, truth);
    else
        row(a, b, dst, n, false, b_moves, value, truth);
}

enum { SHORT_COLS = 2 * VF, SHORT_RUN = 256 }; /* rows of few elements are joined to runs */

/* Elements of rows [first, first + n) of a source of short rows: where they lie, or copies in
 * `run`, which a row that is repeated fills but once.
 */
static inline const float *lay_rows(const struct plane *p, int s, const float *src, int64_t first,
                                    int64_t n, float *run)
{
    const int64_t row_stride = p->row_stride[s], col_stride = p->col_stride[s], cols = p->cols;
    if (row_stride == cols && col_stride == 1)
        return src + first * row_stride;
    if (row_stride == 0 && first > 0)
        return run;
    float *to = run;
    for (int64_t r = first; r < first + n; r++)
        for (int64_t c = 0; c < cols; c++)
            *to++ = src[r * row_stride + c * col_stride];
    return run;
}

static inline __attribute__((always_inline)) void short_rows(const float *a, const float *b,
                                                             uint8_t *dst, const struct plane *p,
                                                             int64_t item, vf_op value, vm_op truth)
{
    float a_run[SHORT_RUN], b_run[SHORT_RUN];
    const int64_t each = SHORT_RUN / p->cols;
    for (int64_t first = 0; first < p->rows; first += each) {
        const int64_t n = min_i64(each, p->rows - first);
        row(lay_rows(p, 0, a, first, n, a_run), lay_rows(p, 1, b, first, n, b_run),
            dst + first * p->cols * item, n * p->cols, true, true, value, truth);
    }
}

static inline __attribute__((always_inline)) void rows(const struct kernel_args *args,
                                                       const struct plane *p, int64_t dst_stride,
                                                       vf_op value, vm_op truth)
{
    const float *a = (const float *)args->src[0] + p->src[0];
    const float *b = (const float *)args->src[1] + p->src[1];
    const int64_t item = value != NULL ? 4 : 1;
    uint8_t *dst = (uint8_t *)args->dst[0] + p->dst * item;
    const bool a_moves = p->col_stride[0] != 0, b_moves = p->col_stride[1] != 0;
    if (p->cols < SHORT_COLS && p->rows > SHORT_COLS) {
        short_rows(a, b, dst, p, item, value, truth);
        return;
    }
    for (int64_t r = 0; r < p->rows; r++) {
        run(a, b, dst, p->cols, a_moves, b_moves, value, truth);
        a += p->row_stride[0];
        b += p->row_stride[1];
        dst += dst_stride * item;
    }
}

/* The ops with what makes their values, or truths. */
#define EACH_VALUE(M)                                                                              \
    M(BINARY_ADD, add, NULL)                                                                       \
    M(BINARY_SUB, sub, NULL)                                                                       \
    M(BINARY_MUL, mul, NULL)                                                                       \
    M(BINARY_DIV, quotient, NULL)                                                                  \
    M(BINARY_MAX, vf_max, NULL)                                                                    \
    M(BINARY_MIN, vf_min, NULL)                                                                    \
    M(BINARY_PRELU, prelu, NULL)
#define EACH_OP(M)                                                                                 \
    EACH_VALUE(M)                                                                                  \
    M(BINARY_EQUAL, NULL, vf_eq)                                                                   \
    M(BINARY_LESS, NULL, vf_lt)                                                                    \
    M(BINARY_GREATER, NULL, greater)                                                               \
    M(BINARY_LESS_OR_EQUAL, NULL, vf_le)                                                           \
    M(BINARY_GREATER_OR_EQUAL, NULL, greater_or_equal)

static inline void binary_items(const struct kernel_args *args)
{
    const struct binary_params *params = args->params;
    const struct broadcast walk = binary_walk(params);
    struct broadcast_walk at = broadcast_begin(&walk, args);
    const int64_t cols = at.deal.cols;
    struct plane p;
    while (broadcast_next(&at, &p)) {
        switch ((enum binary_op)params->op) {
#define CASE(op, value, truth)                                                                     \
    case op:                                                                                       \
        rows(args, &p, cols, value, truth);                                                        \
        break;
            EACH_OP(CASE)
#undef CASE
        default:
            return;
        }
    }
}

static inline void binary_run(enum binary_op op, const float *a, const float *b, void *dst,
                              int64_t n, bool a_moves, bool b_moves)
{
    switch (op) {
#define CASE(op_, value, truth)                                                                    \
    case op_:                                                                                      \
        run(a, b, dst, n, a_moves, b_moves, value, truth);                                         \
        break;
        EACH_OP(CASE)
#undef CASE
    default:
        return;
    }
}

#endif
