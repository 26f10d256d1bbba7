/* softmax on AVX-512. */
#include "vmath_avx512.h"
/* The body needs the names above. */
#include "softmax_vector.h"
