/* Vectors of floats by one set of names, on the instruction set that the file is compiled for: a
 * body is written once and compiled for each. The operators of C work on vf as well: a + b, −x.
 */
#ifndef ATC_VECTOR_H
#define ATC_VECTOR_H

#include <stdint.h>

#if defined __AVX512F__
#include "simd/vector_avx512.h"
#elif defined __AVX2__
#include "simd/vector_avx2.h"
#else
#include "simd/vector_128.h"
#endif

static inline vf vf_add(vf a, vf b)
{
    return a + b;
}

static inline vf vf_sub(vf a, vf b)
{
    return a - b;
}

static inline vf vf_mul(vf a, vf b)
{
    return a * b;
}

static inline vf vf_div(vf a, vf b)
{
    return a / b;
}

static inline vf vf_neg(vf x)
{
    return -x;
}

#endif
