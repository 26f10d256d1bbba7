/* attention on AVX-512. */
#include "vmath_avx512.h"
/* The body needs the names above. */
#include "attention_vector.h"
