/* attention on AVX2. */
#include "simd/vmath_avx2.h"
/* The body needs the names above. */
#include "attention/attention_vector.h"
