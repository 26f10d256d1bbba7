/* int4_matmul of many rows on vectors: weights become floats once for all rows of
 * a chunk, which is less work than three products of bytes for each. Results are sums of float32,
 * of which rows with infinities have those that IEEE 754 defines.
 */
#include "quant/int4_matmul.h"
#include "simd/count_up.h"
#include "simd/vector.h"

#include <string.h>

#ifdef __AVX512F__
#define COUNT_ROWS COUNT_TO_14
enum { PANELS = INT4_MAX_PANELS, ROWS_DEFINED = 14 };
#else
#define COUNT_ROWS COUNT_TO_6
enum { PANELS = 1, ROWS_DEFINED = 6 };
#endif

enum {
    COLUMNS = PANELS * INT4_PANEL, /* of a tile */
    WHOLE = COLUMNS / VF,
    MAX_SUMS = VF_REGISTERS - 4, /* the others hold x and weights */
    MAX_ROWS = MAX_SUMS / WHOLE < ROWS_DEFINED ? MAX_SUMS / WHOLE : ROWS_DEFINED,
};

/* Steps [begin, end) of a panel as floats, [8 · (end − begin), COLUMNS]. A column's four bytes are
 * one word, whose digits to the base 16 are its eight k.
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
        for (int k = 0; k < INT4_STEP; k++, to += COLUMNS)
            for (int j = 0; j < INT4_PANEL; j++)
                to[j] = (float)((int32_t)(words[j] >> 4 * k & 15) - zeros[j]) * scales[j];
    }
}

/* Sums of COLUMNS columns, one row behind the other. */
struct sums {
    float *at;
    int64_t row; /* floats from one to the next */
};

/* Adds the products of n k of `rows` rows of x to their sums, which begin with them where
 * `is_first` is set.
 */
static inline __attribute__((always_inline)) void micro(const float *x, int64_t x_row,
                                                        const float *w, int64_t n, struct sums sums,
                                                        bool is_first, int rows)
{
    vf acc[MAX_ROWS][WHOLE];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < WHOLE; v++)
            acc[i][v] = is_first ? vf_set1(0) : vf_load(sums.at + i * sums.row + v * VF);
    for (int64_t k = 0; k < n; k++, x++, w += COLUMNS) {
        vf columns[WHOLE];
#pragma GCC unroll 4
        for (int v = 0; v < WHOLE; v++)
            columns[v] = vf_load(w + v * VF);
#pragma GCC unroll 14
        for (int i = 0; i < rows; i++) {
            const vf one = vf_set1(x[i * x_row]);
#pragma GCC unroll 4
            for (int v = 0; v < WHOLE; v++)
                acc[i][v] = vf_fma(one, columns[v], acc[i][v]);
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < WHOLE; v++)
            vf_store(sums.at + i * sums.row + v * VF, acc[i][v]);
}

typedef void micro_fn(const float *x, int64_t x_row, const float *w, int64_t n, struct sums sums,
                      bool is_first);
#define DEFINE(_, rows)                                                                            \
    static void micro_##rows(const float *x, int64_t x_row, const float *w, int64_t n,             \
                             struct sums sums, bool is_first)                                      \
    {                                                                                              \
        micro(x, x_row, w, n, sums, is_first, rows < MAX_ROWS ? rows : MAX_ROWS);                  \
    }
#define NAME(_, rows) micro_##rows,
COUNT_ROWS(DEFINE, 0)
static micro_fn *const micros[] = {COUNT_ROWS(NAME, 0)}; /* by rows, up to MAX_ROWS */

/* Rows [first, first + rows) of y in the columns of up to PANELS panels: sums of fewer columns than
 * a tile has are copied to y. False if the call is to end.
 */
static bool run_panels(struct atc_meter *meter, const struct int4_blocking *b, int64_t first,
                       int64_t rows, int64_t panel, int64_t panels)
{
    const struct kernel_args *args = meter->args;
    const struct int4_matmul_params *p = args->params;
    const int64_t steps = ceil_div(p->k, INT4_STEP), column = panel * INT4_PANEL;
    const int64_t columns = min_i64(COLUMNS, p->n - column);
    float *w = args->scratch, *y = (float *)args->dst[0] + first * p->n + column;
    const struct sums sums = columns == COLUMNS
                                 ? (struct sums){y, p->n}
                                 : (struct sums){w + INT4_RUN * INT4_STEP * COLUMNS, COLUMNS};
    for (int64_t step = 0; step < steps; step += INT4_RUN) {
        const int64_t end = min_i64(step + INT4_RUN, steps), k = step * INT4_STEP;
        const int64_t n = min_i64(end * INT4_STEP, p->k) - k;
        if (atc_spend(meter, 8 * INT4_RUN * panels))
            return false;
        for (int64_t i = 0; i < panels; i++) {
            const struct int4_panel weights = int4_panel_at(args, b, panel + i);
            dequantize(p, &weights, step, end, w + i * INT4_PANEL);
        }
        const float *x = (const float *)args->src[INT4_X] + first * p->k + k;
        for (int64_t row = 0, some; row < rows; row += some) {
            some = ceil_div(rows - row, ceil_div(rows - row, MAX_ROWS));
            if (atc_spend(meter, n))
                return false;
            const struct sums of_rows = {sums.at + row * sums.row, sums.row};
            micros[some - 1](x + row * p->k, p->k, w, n, of_rows, step == 0);
        }
    }
    for (int64_t row = 0; row < rows && columns < COLUMNS; row++)
        memcpy(y + row * p->n, sums.at + row * COLUMNS, (size_t)columns * sizeof *y);
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
        for (int64_t panel = begin; panel < end; panel += PANELS)
            if (!run_panels(&meter, &b, first, rows, panel, min_i64(PANELS, end - panel)))
                return;
    }
}
