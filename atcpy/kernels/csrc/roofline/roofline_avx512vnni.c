/* Peak of products of bytes, four a lane. */
#include "roofline/roofline.h"

#include <immintrin.h>

enum { LANES = 16, SUMS = 12 }; /* none waits for its last addition */

static float multiply_add(int64_t steps)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sums[SUMS];
    for (int i = 0; i < SUMS; i++)
        sums[i] = _mm512_set1_epi32(i);
    for (int64_t step = 0; step < steps; step++)
        for (int i = 0; i < SUMS; i++)
            sums[i] = _mm512_dpbusd_epi32(sums[i], ones, ones);
    float sum = 0;
    for (int i = 0; i < SUMS; i++)
        sum += _mm512_reduce_add_ps(_mm512_cvtepi32_ps(sums[i]));
    return sum;
}

const struct roofline_products roofline_bytes_avx512vnni = {8 * LANES * SUMS, multiply_add};
