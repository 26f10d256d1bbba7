/* rotary on AVX2. */
#include "simd_avx2.h"
/* The body needs the names above. */
#include "rotary_vector.h"
