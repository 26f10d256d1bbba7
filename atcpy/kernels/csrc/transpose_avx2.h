/* A transpose of 8 x 8 elements of 4 bytes in registers. */
#ifndef ATC_TRANSPOSE_AVX2_H
#define ATC_TRANSPOSE_AVX2_H

#include <immintrin.h>
#include <stdint.h>

enum { TILE256 = 8 };

/* A mask of the lanes below n, for any n. */
static inline __m256i lanes8(int64_t n)
{
    const int count = n < 0 ? 0 : n > TILE256 ? TILE256 : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Loads n_src vectors of the lanes in src_mask, zero beyond, and stores the first n_dst columns,
 * of the lanes in dst_mask. Strides are in elements.
 */
static inline __attribute__((always_inline)) void
transpose_tile8(const float *src, int64_t src_stride, int64_t n_src, __m256i src_mask, float *dst,
                int64_t dst_stride, int64_t n_dst, __m256i dst_mask)
{
    __m256 a[TILE256], b[TILE256];
#pragma GCC unroll 8
    for (int i = 0; i < TILE256; i++)
        a[i] = i < n_src ? _mm256_maskload_ps(src + i * src_stride, src_mask) : _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int i = 0; i < TILE256; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < TILE256; i += 4)
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
#pragma GCC unroll 8
    for (int i = 0; i < TILE256; i++)
        if (i < n_dst)
            _mm256_maskstore_ps(dst + i * dst_stride, dst_mask, b[i]);
}

#endif
