#include "roofline/roofline.h"

enum { LANES = 32 };

static float sum_of(const float *sums)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += sums[i];
    return sum;
}

static float multiply_add(int64_t steps)
{
    float sums[LANES];
    for (int i = 0; i < LANES; i++)
        sums[i] = (float)i;
    for (int64_t step = 0; step < steps; step++)
        for (int i = 0; i < LANES; i++)
            sums[i] = sums[i] * 0.5F + 1.0F;
    return sum_of(sums);
}

static float read(const float *at, int64_t floats)
{
    float sums[LANES] = {0};
    for (int64_t begin = 0; begin < floats; begin += LANES)
        for (int i = 0; i < LANES; i++)
            sums[i] += at[begin + i];
    return sum_of(sums);
}

const struct roofline_isa roofline_scalar = {{2 * LANES, multiply_add}, read};
