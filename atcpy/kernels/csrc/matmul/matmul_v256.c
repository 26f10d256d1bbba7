/* matmul on vectors of up to 256 bits: up to 6 rows of one panel, in as many vectors of its columns
 * as there are registers for, a broadcast.
 */
#include "core/pieces.h"
#include "simd/activation_vector.h"
#include "matmul/matmul.h"
#include "simd/transpose_v256.h"

enum {
    MAX_BLOCKS = 1,
    MAX_ROWS = 6,
    MAX_ACCUMULATORS = VF_REGISTERS * 3 / 4, /* the others hold a, b and products */
    PANEL = MATMUL_PANEL / VF,               /* vectors of a panel */
    MAX_VECTORS = PANEL <= MAX_ACCUMULATORS / MAX_ROWS ? PANEL : MAX_ACCUMULATORS / MAX_ROWS,
    ROW_SUMS = 8 / PANEL,
};

/* Columns `at` and after it of a row of the tile's panel; 0 beyond the last one. */
static inline vf load_columns(const struct matmul_tile *t, const float *row, int at)
{
    const int64_t left = t->columns - at;
    return left >= VF ? vf_load(row + at) : vf_load_n(row + at, left, 0);
}

static inline void store_columns(const struct matmul_tile *t, float *row, int at, vf y)
{
    const int64_t left = t->columns - at;
    if (left >= VF)
        vf_store(row + at, y);
    else if (left > 0)
        vf_store_few(row + at, y, left);
}

static inline vf load_bias(const struct matmul_tile *t, int row, int at)
{
    const float *bias = t->bias + row * t->bias_row;
    return t->bias_col == 0 ? vf_set1(*bias) : load_columns(t, bias, at);
}

/* Scale, bias and ReLU over sums in registers: a masked store that is read again at once waits. */
static inline __attribute__((always_inline)) void finish(const struct matmul_tile *t, int at,
                                                         vf (*acc)[PANEL], int rows, int vectors)
{
    if (t->scale != 1)
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_mul(acc[i][v], vf_set1(t->scale));
    if (t->bias != NULL)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vf bias = load_bias(t, 0, at + v * VF);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                if (i > 0 && t->bias_row != 0)
                    bias = load_bias(t, i, at + v * VF);
                acc[i][v] = vf_fma(bias, vf_set1(t->bias_scale), acc[i][v]);
            }
        }
    if (t->activation == ACT_RELU)
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_at_least(vf_set1(0), acc[i][v]);
}

/* Other activations go over results that are stored and still in L1: within the micro-kernels they
 * would have to make room among its accumulators.
 */
static __attribute__((noinline)) void activate_tile(const struct matmul_tile *t, int rows)
{
    if (t->columns >= MATMUL_PANEL) {
        FOR_ISA(activate_stored)(t->activation, t->dst, rows, t->y_row, MATMUL_PANEL, t->alpha,
                                 t->beta);
        return;
    }
    for (int i = 0; i < rows; i++)
        for (int at = 0; at < MATMUL_PANEL; at += VF) {
            float *dst = t->dst + i * t->y_row;
            const vf y = load_columns(t, dst, at);
            store_columns(t, dst, at, vf_activate(t->activation, y, t->alpha, t->beta));
        }
}

static inline bool activates_later(const struct matmul_tile *t)
{
    return t->last && t->activation != ACT_NONE && t->activation != ACT_RELU;
}

/* The columns of a panel from `at` on. One function a (rows, vectors): the loops over them unroll
 * into registers. What the sums begin from is added last: a residual that is large beside the
 * products would round each of them.
 */
static inline __attribute__((always_inline)) void micro(const struct matmul_tile *t, int at,
                                                        int rows, int vectors)
{
    vf acc[MAX_ROWS][PANEL];
    const float *start = t->first ? t->residual : t->dst;
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[i][v] = vf_set1(0);

    /* The addresses may go a little beyond the operand, which is no matter to a prefetch. */
    const uintptr_t next_step = t->next_b != NULL ? (uintptr_t)t->next_bytes : 0;
    uintptr_t next = (uintptr_t)(t->next_b != NULL ? t->next_b : (const void *)t->b);

    /* A base for three rows, so that bases and stride stay in registers. */
    const int64_t a_row = t->a_row, b_step = t->b_step;
    const float *a[] = {t->a, t->a + 3 * a_row}, *p = t->b + at;
    for (int64_t k = 0; k < t->k; k++, a[0]++, a[1]++, p += b_step) {
        __builtin_prefetch((const void *)next, 0, 2);
        next += next_step;
        vf b[PANEL];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            b[v] = vf_load(p + v * VF);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const vf x = vf_set1(a[i / 3][i % 3 * a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_fma(x, b[v], acc[i][v]);
        }
    }

    if (start != NULL)
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vf_add(acc[i][v], load_columns(t, start + i * t->y_row, at + v * VF));
    if (t->last)
        finish(t, at, acc, rows, vectors);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            store_columns(t, t->dst + i * t->y_row, at + v * VF, acc[i][v]);
}

/* One row: bound by reading b, so that steps of k go to sums of their own. */
static void micro_1(const struct matmul_tile *t)
{
    vf acc[ROW_SUMS][PANEL];
    const float *start = t->first ? t->residual : t->dst;
#pragma GCC unroll 4
    for (int s = 0; s < ROW_SUMS; s++)
#pragma GCC unroll 4
        for (int v = 0; v < PANEL; v++)
            acc[s][v] = vf_set1(0);
    const int64_t b_step = t->b_step;
    const float *a = t->a, *p = t->b;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k);) {
        int64_t k = piece.begin;
        for (; k + ROW_SUMS <= piece.end; k += ROW_SUMS, p += ROW_SUMS * b_step) {
#pragma GCC unroll 4
            for (int s = 0; s < ROW_SUMS; s++) {
                const vf x = vf_set1(a[k + s]);
#pragma GCC unroll 4
                for (int v = 0; v < PANEL; v++)
                    acc[s][v] = vf_fma(x, vf_load(p + s * b_step + v * VF), acc[s][v]);
            }
        }
        for (; k < piece.end; k++, p += b_step)
#pragma GCC unroll 4
            for (int v = 0; v < PANEL; v++)
                acc[0][v] = vf_fma(vf_set1(a[k]), vf_load(p + v * VF), acc[0][v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < PANEL; v++) {
#pragma GCC unroll 2
        for (int step = 1; step < ROW_SUMS; step *= 2)
#pragma GCC unroll 2
            for (int s = 0; s < ROW_SUMS; s += 2 * step)
                acc[s][v] = vf_add(acc[s][v], acc[s + step][v]);
        if (start != NULL)
            acc[0][v] = vf_add(acc[0][v], load_columns(t, start, v * VF));
    }
    if (t->last)
        finish(t, 0, acc, 1, PANEL);
#pragma GCC unroll 4
    for (int v = 0; v < PANEL; v++)
        store_columns(t, t->dst, v * VF, acc[0][v]);
    if (activates_later(t))
        activate_tile(t, 1);
}

static void transpose(const float *src, int64_t src_row, float *dst, int64_t dst_row, int64_t rows,
                      int64_t columns)
{
    for (int64_t r = 0; r < rows; r += TILE)
        for (int64_t c = 0; c < columns; c += TILE) {
            const float *from = src + r * src_row + c;
            float *to = dst + c * dst_row + r;
            const int64_t high = min_i64(TILE, rows - r), wide = min_i64(TILE, columns - c);
            if (high == TILE && wide == TILE)
                transpose_tile(from, src_row, TILE, TILE, to, dst_row, TILE, TILE);
            else
                transpose_tile(from, src_row, high, wide, to, dst_row, wide, high);
        }
}

/* Where only half a panel has columns, the other half is not computed. */
#define DEFINE(rows)                                                                               \
    static void micro_##rows(const struct matmul_tile *tile)                                       \
    {                                                                                              \
        if (tile->columns <= MATMUL_PANEL / 2)                                                     \
            micro(tile, 0, rows, PANEL / 2);                                                       \
        else                                                                                       \
            for (int at = 0; at < MATMUL_PANEL; at += MAX_VECTORS * VF)                            \
                micro(tile, at, rows, MAX_VECTORS);                                                \
        if (activates_later(tile))                                                                 \
            activate_tile(tile, rows);                                                             \
    }

DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)
DEFINE(6)

static const matmul_micro micros[] = {micro_1, micro_2, micro_3, micro_4, micro_5, micro_6};
const struct matmul_isa FOR_ISA(matmul_isa) = {
    .max_blocks = MAX_BLOCKS,
    .max_rows = MAX_ROWS,
    .row_step = 1,
    .micro = micros,
    .transpose = transpose,
    .widen = FOR_ISA(widen),
    .vnni = 1,
    .round_bf16 = LOOPS_FOR_ISA(round_bf16),
    .dots = FOR_ISA(matmul_dots),
    .add_rows = FOR_ISA(matmul_add_rows),
};

void FOR_ISA(matmul_f32)(const struct kernel_args *args)
{
    matmul_drive(args, &FOR_ISA(matmul_isa));
}
