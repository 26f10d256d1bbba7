/* Widening of weights on AVX2. */
#include "simd_avx2.h"

#include "widen_simd.h"
