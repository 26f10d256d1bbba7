/* pool2d on AVX-512. */
#include "simd/simd_avx512.h"
/* The body needs the names above. */
#include "pooling/pool2d_vector.h"
