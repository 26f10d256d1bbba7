/* Elementary functions on 8 floats: exp_avx2, log_avx2 … */
#ifndef ATC_VMATH_AVX2_H
#define ATC_VMATH_AVX2_H

#include "simd/simd_avx2.h"
#define VMATH(symbol) symbol##_avx2
#include "simd/vmath.h"

#endif
