/* reduce on AVX-512. */
#include "simd_avx512.h"
/* The body needs the names above. */
#include "reduce_vector.h"
