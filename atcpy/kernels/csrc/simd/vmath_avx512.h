/* Elementary functions on 16 floats: exp_avx512, log_avx512 … */
#ifndef ATC_VMATH_AVX512_H
#define ATC_VMATH_AVX512_H

#include "simd/simd_avx512.h"
#define VMATH(symbol) symbol##_avx512
#include "simd/vmath.h"

#endif
