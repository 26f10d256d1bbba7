/* Short rows that lie behind each other, VF of them at a time: column k of all is a vector, so that
 * what is done with a row is done with VF. Gathers would take an access for each element.
 */
#ifndef ATC_SHORT_ROWS_VECTOR_H
#define ATC_SHORT_ROWS_VECTOR_H

#include "simd/vector.h"
#ifdef __AVX512F__
#include "simd/transpose_avx512.h"
#else
#include "simd/transpose_v256.h"
#endif

enum {
    SHORT_ROW = 2 * VF, /* a row that takes longer by itself than its elements do */
    LINE = 16,          /* floats of a cache line */
    READ_AHEAD = 1024,
};

/* Transposes n_src ≤ VF runs of up to VF floats; of dst, n_dst rows of dst_lanes are written. */
static inline __attribute__((always_inline)) void
transpose_short(const float *src, int64_t src_stride, int64_t n_src, int64_t src_lanes, float *dst,
                int64_t dst_stride, int64_t n_dst, int64_t dst_lanes)
{
#ifdef __AVX512F__
    transpose_tile16(src, src_stride, n_src, lanes16(src_lanes < VF ? src_lanes : VF), dst,
                     dst_stride, n_dst, lanes16(dst_lanes < VF ? dst_lanes : VF));
#else
    transpose_tile(src, src_stride, n_src, src_lanes, dst, dst_stride, n_dst, dst_lanes);
#endif
}

/* columns[k · VF + i] = src[i · n + k], for `rows` ≤ VF rows of n ≤ SHORT_ROW floats; 0 beyond
 * them.
 */
static inline void load_short_rows(const float *src, int64_t n, int64_t rows, float *columns)
{
    /* Loads of parts of vectors do not make the CPU read ahead. */
    for (int64_t k = 0; k < n * VF; k += LINE)
        __builtin_prefetch(src + READ_AHEAD + k);
    for (int64_t k = 0; k < n; k += VF)
        transpose_short(src + k, n, rows, n - k, columns + k * VF, VF, n - k, VF);
}

/* The way back. */
static inline void store_short_rows(float *dst, int64_t n, int64_t rows, const float *columns)
{
    for (int64_t k = 0; k < n; k += VF)
        transpose_short(columns + k * VF, VF, n - k, rows, dst + k, n, rows, n - k);
}

#endif
