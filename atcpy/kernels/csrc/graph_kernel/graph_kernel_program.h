/* A program of graph_kernel taken apart: each instruction as a call of the kernel family whose op
 * it is, and the machine that runs those calls on tiles. A machine is built anew for each call of a
 * row.
 */
#ifndef ATC_GRAPH_KERNEL_PROGRAM_H
#define ATC_GRAPH_KERNEL_PROGRAM_H

#include "elementwise/binary.h"
#include "elementwise/cast.h"
#include "elementwise/classify.h"
#include "graph_kernel/graph_kernel.h"
#include "elementwise/pow.h"
#include "reduce/reduce.h"
#include "elementwise/unary.h"
#include "elementwise/where.h"

enum gk_kind {
    GK_KIND_CONST,
    GK_KIND_UNARY,
    GK_KIND_BINARY,
    GK_KIND_REDUCE,
    GK_KIND_CAST,
    GK_KIND_SELECT,
    GK_KIND_POW,
    GK_KIND_CLASSIFY,
};

union gk_params {
    struct unary_params unary;
    struct binary_params binary;
    struct reduce_params reduce;
    struct cast_params cast;
    struct where_params where;
    struct pow_params pow;
    struct classify_params classify;
};

/* One instruction. */
struct gk_call {
    enum gk_kind kind;
    int op;      /* of its family; of GK_KIND_CLASSIFY enum graph_kernel_op */
    int words;   /* that it takes in the program */
    int type;    /* of the register that it writes */
    int written; /* what the family writes: `type`, or the 16-bit float that a Cast rounds to */
    int d, n_src;
    int src[3]; /* registers, or GK_IMMEDIATE */
    int src_type[3];
    int32_t immediate, second; /* second: of the word of data */
};

/* Takes the instruction at word `at` apart, given the types of the registers, 0 where nothing is
 * written. Returns NULL, or why it is none.
 */
const char *gk_read(const struct graph_kernel_params *p, int64_t at, const int *types,
                    struct gk_call *call);

/* The parameters of the call's family, for operands that all move; how many elements is left open
 * (gk_elements). Returns NULL, or why there are none.
 */
const char *gk_fill(const struct gk_call *call, union gk_params *params);

/* The family that an instruction's op belongs to; NULL for GK_CONST. */
const struct kernel_family *gk_family(enum gk_kind kind);

/* Where in its parameters a call's number of elements stands. */
int64_t *gk_elements(enum gk_kind kind, union gk_params *params);

/* The type in a register of what has type `dtype` in memory; 0: none. */
int gk_register_type(int dtype);

/* True if the program works on whole rows. */
bool gk_takes_rows(const struct graph_kernel_params *p);

/* The work of an element in quarters: one for what runs in vectors at once, four for functions, and
 * the most for remainders, which take a loop.
 */
int64_t gk_quarters(const struct graph_kernel_params *p);

/* Ops of float32 that follow one another, on a few vectors that stay in registers: a value at work
 * x, of which each link makes the next.
 */
enum {
    GK_LINK_REVERSED = 128, /* + enum binary_op: op(operand, x); GK_BINARY + …: op(x, operand) */
    GK_LINK_LOAD = 192,     /* the operand */
};

struct gk_link {
    int op;      /* also GK_UNARY + enum unary_op */
    int operand; /* a location */
    int save;    /* the location that gets the value; below 0: none */
    bool moves;  /* the operand is not one element */
    float alpha, beta;
};

/* What an instruction set brings: its rows, and the routines below them that save the walk. */
struct gk_routines {
    kernel_fn unary_f32, reduce_f32, cast, classify;
    void (*binary_f32)(enum binary_op op, const void *a, const void *b, void *dst, int64_t n,
                       bool a_moves, bool b_moves); /* NULL: none */
    void (*where)(int64_t item, const void *condition, const void *a, const void *b, void *dst,
                  int64_t n, const int64_t *moves);
    void (*chain)(const struct gk_link *links, int n_links, uint8_t *const *locations,
                  int64_t begin, int64_t end); /* elements [begin, end) of a tile; NULL: none */
    void (*spread)(float *dst, const float *column, int64_t rows,
                   int64_t cols); /* 32 bits along each row; NULL: none */
};

/* Runs the tiles of `args`. */
void gk_run(const struct kernel_args *args, const struct gk_routines *routines);

/* Tiles, and the bytes of scratch that a call needs. */
int64_t gk_tiles(const struct graph_kernel_params *p);
int64_t gk_scratch(const struct graph_kernel_params *p);

#endif
