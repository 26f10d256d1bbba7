/* pool2d on AVX-512. */
#include "simd_avx512.h"
/* The body needs the names above. */
#include "pool2d_vector.h"
