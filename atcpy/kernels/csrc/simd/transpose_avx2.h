/* A transpose of 8 x 8 elements of 4 bytes in registers. */
#ifndef ATC_TRANSPOSE_AVX2_H
#define ATC_TRANSPOSE_AVX2_H

#include <immintrin.h>
#include <stdint.h>

enum { TILE = 8 };

/* Loads n_src vectors of src_lanes lanes, zero beyond, and stores the first n_dst columns, of
 * dst_lanes lanes; counts above 8 are 8. Strides are in elements. Short stores go through memory:
 * vmaskmovps is microcode on some CPUs.
 */
static inline __attribute__((always_inline)) void
transpose_tile(const float *src, int64_t src_stride, int64_t n_src, int64_t src_lanes, float *dst,
               int64_t dst_stride, int64_t n_dst, int64_t dst_lanes)
{
    __m256 a[TILE], b[TILE];
    if (n_src >= TILE && src_lanes >= TILE) {
#pragma GCC unroll 8
        for (int i = 0; i < TILE; i++)
            a[i] = _mm256_loadu_ps(src + i * src_stride);
    } else {
        const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)src_lanes),
                                                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
#pragma GCC unroll 8
        for (int i = 0; i < TILE; i++)
            a[i] = i < n_src ? _mm256_maskload_ps(src + i * src_stride, mask) : _mm256_setzero_ps();
    }
#pragma GCC unroll 4
    for (int i = 0; i < TILE; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < TILE; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0x44);
            a[i + 2 * j + 1] = _mm256_shuffle_ps(b[i + j], b[i + j + 2], 0xee);
        }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        b[j] = _mm256_permute2f128_ps(a[j], a[j + 4], 0x20);
        b[j + 4] = _mm256_permute2f128_ps(a[j], a[j + 4], 0x31);
    }
    if (dst_lanes >= TILE) {
#pragma GCC unroll 8
        for (int i = 0; i < TILE; i++)
            if (i < n_dst)
                _mm256_storeu_ps(dst + i * dst_stride, b[i]);
        return;
    }
    float rows[TILE][TILE];
#pragma GCC unroll 8
    for (int i = 0; i < TILE; i++)
        _mm256_storeu_ps(rows[i], b[i]);
    for (int i = 0; i < TILE && i < n_dst; i++)
        for (int64_t j = 0; j < dst_lanes; j++)
            dst[i * dst_stride + j] = rows[i][j];
}

#endif
