/* activate_avx512: activate_f32 on 16 floats. */
#ifndef ATC_ACTIVATION_AVX512_H
#define ATC_ACTIVATION_AVX512_H

#include "simd/activation.h"
#include "simd/vmath_avx512.h"
#include "simd/activation_simd.h"

#endif
