/* Vectors of floats by one set of names, on the instruction set that the file is compiled for. */
#ifndef ATC_VECTOR_H
#define ATC_VECTOR_H

#ifdef __AVX512F__
#include "simd/vector_avx512.h"
#else
#include "simd/vector_avx2.h"
#endif

#endif
