/* A transpose of 4 x 4 elements of 4 bytes in registers. */
#ifndef ATC_TRANSPOSE_128_H
#define ATC_TRANSPOSE_128_H

#include "simd/vector.h"

enum { TILE = 4 };

/* Loads n_src vectors of src_lanes lanes, zero beyond, and stores the first n_dst columns, of
 * dst_lanes lanes; counts above 4 are 4. Strides are in elements.
 */
static inline __attribute__((always_inline)) void
transpose_tile(const float *src, int64_t src_stride, int64_t n_src, int64_t src_lanes, float *dst,
               int64_t dst_stride, int64_t n_dst, int64_t dst_lanes)
{
    vf a[TILE], b[TILE];
#pragma GCC unroll 4
    for (int i = 0; i < TILE; i++)
        a[i] = i < n_src ? vf_load_n(src + i * src_stride, src_lanes, 0) : vf_set1(0);
    const vm low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5}, last = {2, 3, 6, 7};
#pragma GCC unroll 2
    for (int i = 0; i < TILE; i += 2) {
        b[i] = __builtin_shuffle(a[i], a[i + 1], low);
        b[i + 1] = __builtin_shuffle(a[i], a[i + 1], high);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        a[2 * i] = __builtin_shuffle(b[i], b[i + 2], first);
        a[2 * i + 1] = __builtin_shuffle(b[i], b[i + 2], last);
    }
#pragma GCC unroll 4
    for (int i = 0; i < TILE; i++)
        if (i < n_dst)
            vf_store_n(dst + i * dst_stride, a[i], dst_lanes);
}

#endif
