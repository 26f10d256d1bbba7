/* graph_kernel by the rows of the instruction set, with chains: float32 ops one after the other on
 * some vectors that stay in registers.
 */
#include "elementwise/binary_vector.h"
#include "elementwise/unary_vector.h"
#include "graph_kernel/graph_kernel_rows.h"

enum { CHAIN = 8 }; /* vectors at a time */

static inline vf chain_read(const float *from, int64_t n, int k)
{
    return n >= VF ? vf_load(from + k * VF) : vf_load_n(from, n, 1.0f);
}

static inline __attribute__((always_inline)) void chain_load(const struct gk_link *link,
                                                             uint8_t *const *locations, int64_t at,
                                                             int vectors, int64_t n, vf *acc)
{
    const float *from = (const float *)locations[link->operand] + (link->moves ? at : 0);
    _Pragma("GCC unroll 8") for (int k = 0; k < vectors; k++) acc[k] =
        link->moves ? chain_read(from, n, k) : vf_set1(*from);
}

/* Runs all links, of which the first loads, on elements from `at` on: `vectors` whole vectors, or
 * one of n lanes. */
static inline __attribute__((always_inline)) void chain_block(const struct gk_link *links,
                                                              int n_links,
                                                              uint8_t *const *locations, int64_t at,
                                                              int vectors, int64_t n)
{
    const vf zero = vf_set1(0.0f), one = vf_set1(1.0f);
    vf acc[CHAIN];
    chain_load(links, locations, at, vectors, n, acc);
    for (const struct gk_link *link = links + 1; link < links + n_links; link++) {
        const float *b = (const float *)locations[link->operand] + (link->moves ? at : 0);
        const vf alpha = vf_set1(link->alpha), beta = vf_set1(link->beta);
        switch (link->op) {
#define ALL(value)                                                                                 \
    _Pragma("GCC unroll 8") for (int k = 0; k < vectors; k++)                                      \
    {                                                                                              \
        const vf x = acc[k];                                                                       \
        acc[k] = value;                                                                            \
    }                                                                                              \
    break
#define CASE_UNARY(op, value)                                                                      \
    case GK_UNARY + op:                                                                            \
        ALL(value);
#define CASE_BINARY(op, value, truth)                                                              \
    case GK_BINARY + op:                                                                           \
        if (link->moves) {                                                                         \
            ALL(value(x, chain_read(b, n, k)));                                                    \
        } else {                                                                                   \
            const vf only = vf_set1(*b);                                                           \
            ALL(value(x, only));                                                                   \
        }                                                                                          \
    case GK_LINK_REVERSED + op:                                                                    \
        if (link->moves) {                                                                         \
            ALL(value(chain_read(b, n, k), x));                                                    \
        } else {                                                                                   \
            const vf only = vf_set1(*b);                                                           \
            ALL(value(only, x));                                                                   \
        }
            EACH_UNARY(CASE_UNARY)
        case GK_UNARY + UNARY_POW: /* 2 or 3 (unary_in_vectors) */
            if (link->alpha == 2) {
                ALL(x * x);
            }
            ALL(x * x * x);
            EACH_VALUE(CASE_BINARY)
#undef CASE_UNARY
#undef CASE_BINARY
#undef ALL
        default: /* GK_LINK_LOAD */
            chain_load(link, locations, at, vectors, n, acc);
        }
        if (link->save < 0)
            continue;
        float *to = (float *)locations[link->save] + at;
        _Pragma("GCC unroll 8") for (int k = 0; k < vectors; k++)
        {
            if (n >= VF)
                vf_store(to + k * VF, acc[k]);
            else
                vf_store_n(to, acc[k], n);
        }
    }
}

static inline void chain_run(const struct gk_link *links, int n_links, uint8_t *const *locations,
                             int64_t begin, int64_t end)
{
    int64_t at = begin;
    for (; at + CHAIN * VF <= end; at += CHAIN * VF)
        chain_block(links, n_links, locations, at, CHAIN, VF);
    for (; at < end; at += VF)
        chain_block(links, n_links, locations, at, 1, min_i64(VF, end - at));
}

/* Rows of `cols` elements, each the one of the column. Whole vectors run into the next row, which
 * is written after: on some CPUs a masked store takes as long as ten others.
 */
static inline void chain_spread(float *dst, const float *column, int64_t rows, int64_t cols)
{
    const float *const end = dst + rows * cols;
    for (int64_t r = 0; r < rows; r++, dst += cols) {
        const vf x = vf_set1(column[r]);
        for (int64_t c = 0; c < cols; c += VF)
            if (end - dst >= c + VF)
                vf_store(dst + c, x);
            else
                vf_store_n(dst + c, x, min_i64(VF, cols - c));
    }
}

static void chain(const struct gk_link *links, int n_links, uint8_t *const *locations,
                  int64_t begin, int64_t end)
{
    chain_run(links, n_links, locations, begin, end);
}

void FOR_ISA(graph_kernel_any)(const struct kernel_args *args)
{
    static const struct gk_routines routines = {FOR_ISA(unary_f32),
                                                FOR_ISA(reduce_f32),
                                                LOOPS_FOR_ISA(cast_any),
                                                LOOPS_FOR_ISA(classify_any),
                                                FOR_ISA(binary_run),
                                                LOOPS_FOR_ISA(where_run),
                                                chain,
                                                chain_spread};
    gk_run(args, &routines);
}
