/* pool2d on AVX2. */
#include "simd_avx2.h"
/* The body needs the names above. */
#include "pool2d_vector.h"
