/* matmul: activation(scale · a·b + bias_scale · bias + residual), over a batch of matrices.
 *
 *     a         [batch…, m, k] with any strides, so transposed as well
 *     b         [batch…, k, n] with any strides; or, where b_packed is 1, FRACTAL_NZ with C0 = 16
 *               of the type that `weights` names: [batch…, ⌈n/16⌉, ⌈k/16⌉, 16, 16], panels of 16
 *               columns whose rows follow each other
 *     bias      element (i, j) lies at i · bias_row + j · bias_col, bias_col being 0 or 1; optional
 *     residual  with the strides of y; may be the destination itself; needs scale = 1; optional
 *     y         [batch…, m, n], rows contiguous
 *
 * With weights in pairs of bfloat16, a is rounded to that type before it is multiplied; it steps
 * along k. Strides are counted in elements; a stride of 0 broadcasts. k = 0 gives sums of nothing.
 */
#ifndef ATC_MATMUL_H
#define ATC_MATMUL_H

#include "simd/activation.h"
#include "core/kernel.h"
#include "matmul/round_bf16.h"
#include "matmul/widen.h"

enum {
    MATMUL_BATCH_RANK = 5,
    MATMUL_PANEL = 16,     /* columns in a panel: C0 of FRACTAL_NZ */
    MATMUL_KC = 768,       /* max k of one pass over a panel; row stride of packed a */
    MATMUL_MAX_BLOCKS = 2, /* panels of one micro-kernel call, on any ISA */
};

#define MATMUL_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64S(batch, MATMUL_BATCH_RANK)                                                                 \
    I64S(a_batch, MATMUL_BATCH_RANK)                                                               \
    I64S(b_batch, MATMUL_BATCH_RANK)                                                               \
    I64S(y_batch, MATMUL_BATCH_RANK)                                                               \
    I64(m) I64(k) I64(n) I64(a_row) I64(a_col) I64(b_row) I64(b_col) I64(y_row) I64(b_packed)      \
        I64(bias_row) I64(bias_col) F64(scale) F64(bias_scale)\
            ENUM(weights, weight_types)                                                            \
            ENUM(activation, activation_names) F64(alpha) F64(beta)
DECLARE_PARAMS(matmul, MATMUL_FIELDS)

enum { MATMUL_A, MATMUL_B, MATMUL_BIAS, MATMUL_RESIDUAL, MATMUL_OPERANDS };

/* One work item: rows [row, row + rows) by columns [column, column + columns) of one matrix of the
 * batch. Offsets lead to the matrices.
 */
struct matmul_item {
    int64_t a, b, y;
    int64_t row, rows, column, columns;
};

struct matmul_item matmul_find_item(const struct matmul_params *p, const struct atc_cpu *cpu,
                                    int64_t item);

/* Steps of k of one pass; panels of b over them fit into the scratch, of 2 · MATMUL_PANEL floats or
 * as many bytes a step, unless one row is multiplied with columns where they lie.
 */
int64_t matmul_depth(const struct matmul_params *p, const struct atc_cpu *cpu);
bool matmul_takes_dots(const struct matmul_params *p);
bool matmul_adds_rows(const struct matmul_params *p);

/* Some rows by up to `blocks` panels, over a run of k: the work of one micro-kernel call. */
struct matmul_tile {
    const struct kernel_args *args; /* one row may have a long run of k */
    const float *a;
    int64_t a_row;   /* floats from one row to the next; steps of k lie side by side */
    const float *b;  /* 16 floats a step of k */
    int64_t b_step;  /* floats from one step of k to the next */
    int64_t b_panel; /* floats from one panel to the next */
    int64_t k;
    /* What is read of b after these panels, for as many panels: all tiles together prefetch it into
     * L2. NULL: nothing.
     */
    const void *next_b;
    int64_t next_panel;    /* bytes from one panel to the next */
    int64_t next_bytes;    /* of a panel, for a step of k of this tile */
    int64_t columns;       /* of the result; the last panel may have less than 16 */
    const float *residual; /* NULL: none */
    const float *bias;     /* NULL: none */
    int64_t bias_row, bias_col;
    float *dst;
    int64_t y_row;
    int64_t rows, all_rows; /* of this call; of those that the ISA's begin_rows got */
    bool first, last;       /* the sum begins here; it ends here, so finish */
    float scale, bias_scale;
    enum activation activation;
    float alpha, beta;
};

/* sums[c] = Σ a[i] · b[c · b_col + i] over k elements. One function an ISA. */
typedef void matmul_dots(const struct kernel_args *args, const float *a, const float *b,
                         int64_t b_col, int64_t k, int64_t columns, float *sums);
matmul_dots matmul_dots_sse2, matmul_dots_neon, matmul_dots_avx2, matmul_dots_avx512f;

/* sums[c] += Σ a[i] · b[i · b_row + c] over k rows; `sums` has room for whole vectors. */
typedef void matmul_add_rows(const float *a, const float *b, int64_t b_row, int64_t k,
                             int64_t columns, float *sums);
matmul_add_rows matmul_add_rows_sse2, matmul_add_rows_neon, matmul_add_rows_avx2,
    matmul_add_rows_avx512f;

/* What an ISA brings: micro-kernels by blocks and rows, and a transposition for packing. */
typedef void (*matmul_micro)(const struct matmul_tile *tile);
struct matmul_isa {
    int max_blocks, max_rows, row_step;
    const matmul_micro *micro; /* [blocks - 1][⌈rows / row_step⌉ - 1] */
    /* Called before micro-kernels run over some packed rows of a, which all lie behind each other;
     * or NULL.
     */
    void (*begin_rows)(int64_t rows);
    /* dst[c · dst_row + r] = src[r · src_row + c] */
    void (*transpose)(const float *src, int64_t src_row, float *dst, int64_t dst_row, int64_t rows,
                      int64_t columns);
    widen_fn *widen;
    int vnni; /* factor for weights in pairs */
    round_bf16_fn *round_bf16;
    matmul_dots *dots;
    matmul_add_rows *add_rows;
};

extern const struct matmul_isa matmul_isa_sse2, matmul_isa_neon, matmul_isa_avx2,
    matmul_isa_avx512f, matmul_isa_avx512bf16;

/* Cuts rows into tiles of nearly equal height and runs them; `tile` is the first one's. */
void matmul_run_rows(const struct matmul_isa *isa, struct matmul_tile tile, int64_t rows);

void matmul_drive(const struct kernel_args *args, const struct matmul_isa *isa);

#endif
