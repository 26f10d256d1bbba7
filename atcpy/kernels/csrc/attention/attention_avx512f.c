/* attention on AVX-512. */
#include "simd/vmath_avx512.h"
/* The body needs the names above. */
#include "attention/attention_vector.h"
