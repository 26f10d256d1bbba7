/* Peak of products of bfloat16, two a lane. */
#include "roofline/roofline.h"

#include <immintrin.h>

enum { LANES = 16, SUMS = 24 }; /* none waits for its last addition */

static float multiply_add(int64_t steps)
{
    const __m512bh ones = (__m512bh)_mm512_set1_epi32(0x3f803f80);
    __m512 sums[SUMS];
#pragma GCC unroll 24
    for (int i = 0; i < SUMS; i++)
        sums[i] = _mm512_set1_ps((float)i);
    for (int64_t step = 0; step < steps; step++)
#pragma GCC unroll 24
        for (int i = 0; i < SUMS; i++)
            sums[i] = _mm512_dpbf16_ps(sums[i], ones, ones);
    float sum = 0;
#pragma GCC unroll 24
    for (int i = 0; i < SUMS; i++)
        sum += _mm512_reduce_add_ps(sums[i]);
    return sum;
}

const struct roofline_products roofline_pairs_avx512bf16 = {4 * LANES * SUMS, multiply_add};
