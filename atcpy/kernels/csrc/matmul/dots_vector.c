/* Products of one row on vectors: dot products, and sums of rows. */
#include "core/pieces.h"
#include "matmul/matmul.h"
#include "simd/vector.h"

#include <string.h>

enum {
    COLUMNS = 4,
    ROWS = 8,
    SUMS = 2,
    LINE = 16,    /* floats of a cache line */
    AHEAD = 3072, /* floats between what is loaded and what is prefetched */
};

/* Columns that lie behind each other are one run, but those that are multiplied together are read
 * as several short ones, which the CPU does not foresee.
 */
static inline __attribute__((always_inline)) void read_ahead(const float *b, int64_t b_col,
                                                             int columns, int floats)
{
#pragma GCC unroll 4
    for (int c = 0; columns > 1 && c < columns; c++)
#pragma GCC unroll 2
        for (int i = 0; i < floats; i += LINE)
            __builtin_prefetch(b + c * b_col + AHEAD + i);
}

static inline __attribute__((always_inline)) void dots(const struct kernel_args *args,
                                                       const float *a, const float *b,
                                                       int64_t b_col, int64_t k, int columns,
                                                       float *sums)
{
    vf acc[COLUMNS][SUMS];
#pragma GCC unroll 4
    for (int c = 0; c < columns; c++)
#pragma GCC unroll 2
        for (int s = 0; s < SUMS; s++)
            acc[c][s] = vf_set1(0);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k);) {
        int64_t i = piece.begin;
        for (; i + SUMS * VF <= piece.end; i += SUMS * VF) {
            read_ahead(b + i, b_col, columns, SUMS * VF);
#pragma GCC unroll 2
            for (int s = 0; s < SUMS; s++) {
                const vf x = vf_load(a + i + s * VF);
#pragma GCC unroll 4
                for (int c = 0; c < columns; c++)
                    acc[c][s] = vf_fma(x, vf_load(b + c * b_col + i + s * VF), acc[c][s]);
            }
        }
        for (; i < piece.end; i += VF) {
            const int64_t n = min_i64(VF, k - i);
            const vf x = vf_load_n(a + i, n, 0);
            read_ahead(b + i, b_col, columns, VF);
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++)
                acc[c][0] = vf_fma(x, vf_load_n(b + c * b_col + i, n, 0), acc[c][0]);
        }
    }
    vf total[COLUMNS];
#pragma GCC unroll 4
    for (int c = 0; c < COLUMNS; c++)
        total[c] = c < columns ? vf_add(acc[c][0], acc[c][1]) : vf_set1(0);
    float column_sums[COLUMNS];
    vf_store_sums(column_sums, total);
    memcpy(sums, column_sums, (size_t)columns * sizeof *sums);
}

void FOR_ISA(matmul_dots)(const struct kernel_args *args, const float *a, const float *b,
                          int64_t b_col, int64_t k, int64_t columns, float *sums)
{
    int64_t c = 0;
    for (; c + COLUMNS <= columns; c += COLUMNS)
        dots(args, a, b + c * b_col, b_col, k, COLUMNS, sums + c);
    for (; c < columns; c++)
        dots(args, a, b + c * b_col, b_col, k, 1, sums + c);
}

static inline __attribute__((always_inline)) void
add_rows(const float *a, const float *b, int64_t b_row, int rows, int64_t columns, float *sums)
{
    vf x[ROWS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
        x[i] = vf_set1(a[i]);
    for (int64_t c = 0; c < columns; c += VF) {
        const int64_t n = columns - c;
        vf sum = vf_load(sums + c);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const float *at = b + i * b_row + c;
            sum = vf_fma(x[i], n < VF ? vf_load_n(at, n, 0) : vf_load(at), sum);
        }
        vf_store(sums + c, sum);
    }
}

void FOR_ISA(matmul_add_rows)(const float *a, const float *b, int64_t b_row, int64_t k,
                              int64_t columns, float *sums)
{
    int64_t i = 0;
    for (; i + ROWS <= k; i += ROWS)
        add_rows(a + i, b + i * b_row, b_row, ROWS, columns, sums);
    for (; i < k; i++)
        add_rows(a + i, b + i * b_row, b_row, 1, columns, sums);
}
