/* activate_avx2: activate_f32 on 8 floats. */
#ifndef ATC_ACTIVATION_AVX2_H
#define ATC_ACTIVATION_AVX2_H

#include "simd/activation.h"
#include "simd/vmath_avx2.h"
#include "simd/activation_simd.h"

#endif
