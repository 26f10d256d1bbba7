/* transpose_tile on the vectors of AVX2, or on those of 128 bits. */
#ifndef ATC_TRANSPOSE_V256_H
#define ATC_TRANSPOSE_V256_H

#ifdef __AVX2__
#include "simd/transpose_avx2.h"
#else
#include "simd/transpose_128.h"
#endif

#endif
