/* How conv2d packs rows of single channels, on vectors. */
#include "conv/conv2d.h"
#include "simd/vector.h"

void FOR_ISA(conv2d_take_even)(const float *from, float *to, int64_t count)
{
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        vf_store(to + i, vf_load_even(from + 2 * i));
    for (; i < count; i++)
        to[i] = from[2 * i];
}
