/* int4_matmul of many rows on vectors of up to 256 bits: weights become floats once for all rows of
 * a chunk, which is less work than three products of bytes for each. Results are sums of float32,
 * of which rows with infinities have those that IEEE 754 defines.
 */
#include "quant/int4_matmul.h"
#include "simd/count_up.h"
#include "simd/vector.h"

#include <string.h>

enum {
    WHOLE = INT4_PANEL / VF,         /* vectors of a panel's row */
    MAX_SUMS = VF_REGISTERS * 3 / 4, /* the others hold x and weights */
    MAX_ROWS = MAX_SUMS / WHOLE < 6 ? MAX_SUMS / WHOLE : 6,
};

/* Steps [begin, end) of a panel as floats, [8 · (end − begin), INT4_PANEL]. A column's four bytes
 * are one word, whose digits to the base 16 are its eight k.
 */
static void dequantize(const struct int4_matmul_params *p, const struct int4_panel *panel,
                       int64_t begin, int64_t end, float *restrict to)
{
    for (int64_t step = begin; step < end; step++) {
        const int64_t block = step * INT4_STEP / p->block * INT4_PANEL;
        const float *restrict scales = panel->scales + block;
        uint32_t words[INT4_PANEL];
        memcpy(words, panel->w + step * INT4_BYTES, sizeof words);
        int32_t zeros[INT4_PANEL];
        for (int j = 0; j < INT4_PANEL; j++)
            zeros[j] = panel->zeros == NULL ? 8 : panel->zeros[block + j];
        for (int k = 0; k < INT4_STEP; k++, to += INT4_PANEL)
            for (int j = 0; j < INT4_PANEL; j++)
                to[j] = (float)((int32_t)(words[j] >> 4 * k & 15) - zeros[j]) * scales[j];
    }
}

/* Adds the products of n k of `rows` rows of x to their sums, [rows, INT4_PANEL]. */
static inline __attribute__((always_inline)) void
micro(const float *x, int64_t x_row, const float *w, int64_t n, float *sums, int rows)
{
    vf acc[MAX_ROWS][WHOLE];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < WHOLE; v++)
            acc[i][v] = vf_load(sums + i * INT4_PANEL + v * VF);
    for (int64_t k = 0; k < n; k++, x++, w += INT4_PANEL) {
        vf columns[WHOLE];
#pragma GCC unroll 4
        for (int v = 0; v < WHOLE; v++)
            columns[v] = vf_load(w + v * VF);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const vf one = vf_set1(x[i * x_row]);
#pragma GCC unroll 4
            for (int v = 0; v < WHOLE; v++)
                acc[i][v] = vf_fma(one, columns[v], acc[i][v]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < WHOLE; v++)
            vf_store(sums + i * INT4_PANEL + v * VF, acc[i][v]);
}

typedef void micro_fn(const float *x, int64_t x_row, const float *w, int64_t n, float *sums);
#define DEFINE(_, rows)                                                                            \
    static void micro_##rows(const float *x, int64_t x_row, const float *w, int64_t n,             \
                             float *sums)                                                          \
    {                                                                                              \
        micro(x, x_row, w, n, sums, rows < MAX_ROWS ? rows : MAX_ROWS);                            \
    }
#define NAME(_, rows) micro_##rows,
COUNT_TO_6(DEFINE, 0)
static micro_fn *const micros[] = {COUNT_TO_6(NAME, 0)}; /* by rows, up to MAX_ROWS */

/* Rows [first, first + rows) of y in the columns of a panel. False if the call is to end. */
static bool run_panel(struct atc_meter *meter, const struct int4_blocking *b, int64_t first,
                      int64_t rows, int64_t number)
{
    const struct kernel_args *args = meter->args;
    const struct int4_matmul_params *p = args->params;
    const struct int4_panel panel = int4_panel_at(args, b, number);
    const int64_t steps = ceil_div(p->k, INT4_STEP), columns = number * INT4_PANEL;
    float *w = args->scratch, *sums = w + INT4_RUN * INT4_STEP * INT4_PANEL;
    memset(sums, 0, (size_t)rows * INT4_PANEL * sizeof *sums);
    for (int64_t step = 0; step < steps; step += INT4_RUN) {
        const int64_t end = min_i64(step + INT4_RUN, steps), k = step * INT4_STEP;
        const int64_t n = min_i64(end * INT4_STEP, p->k) - k;
        if (atc_spend(meter, 8 * INT4_RUN))
            return false;
        dequantize(p, &panel, step, end, w);
        const float *x = (const float *)args->src[INT4_X] + first * p->k + k;
        for (int64_t row = 0, some; row < rows; row += some) {
            some = ceil_div(rows - row, ceil_div(rows - row, MAX_ROWS));
            if (atc_spend(meter, n))
                return false;
            micros[some - 1](x + row * p->k, p->k, w, n, sums + row * INT4_PANEL);
        }
    }
    const size_t bytes = (size_t)min_i64(INT4_PANEL, p->n - columns) * sizeof *sums;
    float *y = (float *)args->dst[0] + first * p->n + columns;
    for (int64_t row = 0; row < rows; row++)
        memcpy(y + row * p->n, sums + row * INT4_PANEL, bytes);
    return true;
}

void FOR_ISA(int4_matmul_floats)(const struct kernel_args *args)
{
    const struct int4_matmul_params *p = args->params;
    const struct int4_blocking b = int4_block(p, args->cpu);
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t first = item / b.groups * b.chunk_rows;
        const int64_t rows = min_i64(b.chunk_rows, p->m - first);
        const int64_t begin = item % b.groups * b.group;
        const int64_t end = min_i64(begin + b.group, b.panels);
        for (int64_t panel = begin; panel < end; panel++)
            if (!run_panel(&meter, &b, first, rows, panel))
                return;
    }
}
