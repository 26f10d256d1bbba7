/* Lanes of a vector on AVX-512 that lie inside a row. */
#ifndef ATC_LANES_AVX512_H
#define ATC_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { LANES = 16 };

/* Lanes of a vector from element number j of a row on that the row has, of n elements. */
static inline __mmask16 lanes_inside(int64_t j, int64_t n)
{
    if (j <= -LANES || j >= n)
        return 0;
    const uint32_t below = j < 0 ? (1u << -j) - 1 : 0;
    const uint32_t upto = n - j >= LANES ? 0xffff : (1u << (n - j)) - 1;
    return (__mmask16)(upto & ~below);
}

#endif
