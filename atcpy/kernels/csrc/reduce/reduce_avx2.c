/* reduce on AVX2. */
#include "simd/simd_avx2.h"
/* The body needs the names above. */
#include "reduce/reduce_vector.h"
