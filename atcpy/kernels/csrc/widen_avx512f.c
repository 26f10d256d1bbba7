/* Widening of weights on AVX-512. */
#include "simd_avx512.h"

#include "widen_simd.h"
