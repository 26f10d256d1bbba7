/* reduce on AVX2. */
#include "simd_avx2.h"
/* The body needs the names above. */
#include "reduce_vector.h"
