/* A transpose of 16 x 16 elements of 4 bytes in registers. */
#ifndef ATC_TRANSPOSE_AVX512_H
#define ATC_TRANSPOSE_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { TILE512 = 16 };

/* Lanes below n, for n of 0 to 16. */
static inline __mmask16 lanes16(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}

/* Loads n_src vectors of the lanes in src_mask, zero beyond, and stores the first n_dst columns,
 * of the lanes in dst_mask. Strides are in elements.
 */
static inline __attribute__((always_inline)) void
transpose_tile16(const float *src, int64_t src_stride, int64_t n_src, __mmask16 src_mask,
                 float *dst, int64_t dst_stride, int64_t n_dst, __mmask16 dst_mask)
{
    __m512 a[TILE512], b[TILE512];
    /* A load of no lanes from a page that is not there takes hundreds of cycles. */
#pragma GCC unroll 16
    for (int i = 0; i < TILE512; i++)
        a[i] =
            _mm512_maskz_loadu_ps(i < n_src ? src_mask : 0, src + (i < n_src ? i : 0) * src_stride);
#pragma GCC unroll 8
    for (int i = 0; i < TILE512; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < TILE512; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const __m512d low = _mm512_castps_pd(b[i + j]), high = _mm512_castps_pd(b[i + j + 2]);
            a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m512 even01 = _mm512_shuffle_f32x4(a[j], a[j + 4], 0x88);
        const __m512 odd01 = _mm512_shuffle_f32x4(a[j], a[j + 4], 0xdd);
        const __m512 even23 = _mm512_shuffle_f32x4(a[j + 8], a[j + 12], 0x88);
        const __m512 odd23 = _mm512_shuffle_f32x4(a[j + 8], a[j + 12], 0xdd);
        b[j] = _mm512_shuffle_f32x4(even01, even23, 0x88);
        b[j + 8] = _mm512_shuffle_f32x4(even01, even23, 0xdd);
        b[j + 4] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
        b[j + 12] = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < TILE512; i++)
        if (i < n_dst)
            _mm512_mask_storeu_ps(dst + i * dst_stride, dst_mask, b[i]);
}

#endif
