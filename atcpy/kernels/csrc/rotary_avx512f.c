/* rotary on AVX-512. */
#include "simd_avx512.h"
/* The body needs the names above. */
#include "rotary_vector.h"
