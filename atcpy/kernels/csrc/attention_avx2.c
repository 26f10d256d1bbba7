/* attention on AVX2. */
#include "vmath_avx2.h"
/* The body needs the names above. */
#include "attention_vector.h"
