/* Widening of weights on AVX-512. */
#include "simd/simd_avx512.h"

#include "matmul/widen_simd.h"
