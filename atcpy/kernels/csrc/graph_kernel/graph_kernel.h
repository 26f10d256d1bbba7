/* graph_kernel: a program of elementwise ops, casts, selects and row reductions on tiles that stay
 * in the first cache: one pass over memory for a whole subgraph.
 *
 *     sources       0 … n_src − 1, each dense and row-major over the dims that it has
 *     destinations  likewise
 *
 * The domain is dims[0] × … × dims[4], row-major; where there are fewer dims, the first ones are 1.
 * `masks` has 5 bits an operand, sources first, then destinations: bit d of the five says that the
 * operand has size 1 along dim d (a source is then broadcast, a destination holds one element a
 * row). `types` has 5 bits an operand in the same order: its enum atc_dtype.
 *
 * Registers are 0 … 63. 0 … n_src − 1 are the sources and cannot be written; others hold what was
 * written last. Each register has a type: floats of 16 bits are float32 in registers. Destination d
 * takes register `results >> 8·d & 255` after the last instruction; its type is the register's, or
 * a float of 16 bits, to which a float32 register is rounded.
 *
 * An instruction is a word of 64 bits:
 *
 *     bits  0 –  7  op          0 + enum unary_op: d = op(a)
 *                               64 + enum binary_op: d = op(a, b)
 *                               128 + enum reduce_kind: d = op over the elements of a in its row
 *                               from 192: enum graph_kernel_op
 *     bits  8 – 15  d           the register written
 *     bits 16 – 23  a           a register; of a binary op or Pow 255: the immediate
 *     bits 24 – 31  b           likewise, but not both
 *     bits 32 – 63  immediate   float32's bits where the other operand is a float, else an int32
 *
 * What an op does not use is 0.
 *
 * The immediate of a unary op is its alpha, or the lower bound of an integer Clip. The four ops
 * that have a second number (Clip, HardSigmoid, Selu, Shrink) are followed by a word of data: its
 * bits 32 – 63 are beta, or the upper bound; its other bits are 0.
 *
 * Arithmetic is that of the families unary, binary, reduce, cast, pow, where and classify, row by
 * row of the same instruction set, element by element: a program's result is bit for bit that of
 * its instructions one at a time (float16 but for what it keeps in float32 between them; a Cast to
 * float16 or bfloat16 within a program rounds to it). Nothing depends on how work is dealt.
 *
 * Destination 0 may be the memory of sources that have the same dims and whose elements are as
 * large: a tile is read by all instructions before it is written, and no other tile reads those
 * elements.
 *
 * A program that reduces, or whose destination has bit 4 of its mask, works on whole rows, of at
 * most GK_ROW elements. A value that is the same all along the row is computed once a row.
 */
#ifndef ATC_GRAPH_KERNEL_H
#define ATC_GRAPH_KERNEL_H

#include "elementwise/unary.h"

enum {
    GK_DIMS = 5,
    GK_SOURCES = 8,
    GK_TARGETS = 4,
    GK_CODE = 27,
    GK_REGISTERS = 64,
    GK_IMMEDIATE = 255,
    GK_ROW = 4096, /* elements of a row that is reduced */
    GK_UNARY = 0,
    GK_BINARY = 64,
    GK_REDUCE = 128,
};

enum graph_kernel_op {
    GK_CONST = 192, /* d = the immediate, in the type of number a (enum atc_dtype) */
    GK_CAST,        /* d = a in the type of number `immediate` */
    GK_SELECT,      /* d = a ? b : the register whose number is the immediate */
    GK_POW,         /* d = a ^ b */
    GK_IS_NAN,      /* d = a is NaN; floats */
    GK_IS_INF,      /* d = a is −infinity (immediate 1), +infinity (2), either (3); floats */
};

#define GRAPH_KERNEL_FIELDS(I64, I64S, F64, ENUM)                                                  \
    I64S(dims, 5) I64(masks) I64(types) I64(n_src) I64(n_dst) I64(results) I64(n_code)             \
    I64S(code, 27)
DECLARE_PARAMS(graph_kernel, GRAPH_KERNEL_FIELDS)

/* An instruction, taken apart. */
struct gk_instruction {
    int op, d, a, b;
    int32_t immediate;
};

static inline struct gk_instruction gk_instruction(int64_t word)
{
    const uint64_t bits = (uint64_t)word;
    return (struct gk_instruction){(int)(bits & 255), (int)(bits >> 8 & 255),
                                   (int)(bits >> 16 & 255), (int)(bits >> 24 & 255),
                                   (int32_t)(uint32_t)(bits >> 32)};
}

/* True for the ops that a word of data follows. */
static inline bool gk_has_data(int op)
{
    return op == UNARY_CLIP || op == UNARY_HARD_SIGMOID || op == UNARY_SELU || op == UNARY_SHRINK;
}

/* Operand `slot`, destinations after sources. */
static inline int gk_mask(const struct graph_kernel_params *p, int slot)
{
    return (int)(p->masks >> (5 * slot) & 31);
}

static inline int gk_type(const struct graph_kernel_params *p, int slot)
{
    return (int)(p->types >> (5 * slot) & 31);
}

static inline int gk_result(const struct graph_kernel_params *p, int dst)
{
    return (int)(p->results >> (8 * dst) & 255);
}

#endif
