/* pool2d on AVX2. */
#include "simd/simd_avx2.h"
/* The body needs the names above. */
#include "pooling/pool2d_vector.h"
