/* reduce on AVX-512. */
#include "simd/simd_avx512.h"
/* The body needs the names above. */
#include "reduce/reduce_vector.h"
