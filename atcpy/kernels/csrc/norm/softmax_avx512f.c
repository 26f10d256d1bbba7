/* softmax on AVX-512. */
#include "simd/vmath_avx512.h"
/* The body needs the names above. */
#include "norm/softmax_vector.h"
