/* Widening of weights on AVX2. */
#include "simd/simd_avx2.h"

#include "matmul/widen_simd.h"
