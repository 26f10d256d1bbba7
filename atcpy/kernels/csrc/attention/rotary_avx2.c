/* rotary on AVX2. */
#include "simd/simd_avx2.h"
/* The body needs the names above. */
#include "attention/rotary_vector.h"
