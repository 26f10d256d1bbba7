#include "roofline/roofline.h"

#include "core/kernel.h"
#include "simd/vector.h"

/* So many sums that none waits for its last addition, on CPUs that begin two in each cycle. */
enum { SUMS = 12, READ_SUMS = 8 };
static_assert(ROOFLINE_READ % (READ_SUMS * VF) == 0, "whole steps");

static float sum_of(const vf *sums, int n)
{
    float lanes[VF], sum = 0;
    for (int i = 0; i < n; i++) {
        vf_store(lanes, sums[i]);
        for (int k = 0; k < VF; k++)
            sum += lanes[k];
    }
    return sum;
}

static float multiply_add(int64_t steps)
{
    const vf factor = vf_set1(0.5F), term = vf_set1(1.0F);
    vf sums[SUMS];
    for (int i = 0; i < SUMS; i++)
        sums[i] = vf_set1((float)i);
    for (int64_t step = 0; step < steps; step++)
        for (int i = 0; i < SUMS; i++)
            sums[i] = vf_fma(sums[i], factor, term);
    return sum_of(sums, SUMS);
}

static float read(const float *at, int64_t floats)
{
    vf sums[READ_SUMS];
    for (int i = 0; i < READ_SUMS; i++)
        sums[i] = vf_set1(0.0F);
    for (int64_t begin = 0; begin < floats; begin += READ_SUMS * VF)
        for (int i = 0; i < READ_SUMS; i++)
            sums[i] = vf_add(sums[i], vf_load(at + begin + i * VF));
    return sum_of(sums, READ_SUMS);
}

const struct roofline_isa FOR_ISA(roofline) = {{2 * SUMS * VF, multiply_add}, read};
