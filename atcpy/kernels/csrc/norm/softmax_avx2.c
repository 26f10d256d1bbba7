/* softmax on AVX2. */
#include "simd/vmath_avx2.h"
/* The body needs the names above. */
#include "norm/softmax_vector.h"
