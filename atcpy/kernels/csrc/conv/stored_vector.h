/* Vectors of activations that lie in memory as floats or as bfloat16. */
#ifndef ATC_STORED_VECTOR_H
#define ATC_STORED_VECTOR_H

#include <stdbool.h>

#include "simd/vector.h"

/* Those from element `i` of `at` on. */
static inline __attribute__((always_inline)) vf load_stored(const float *at, bool is_bf16,
                                                            int64_t i)
{
    return is_bf16 ? vf_load_bf16((const uint16_t *)at + i) : vf_load(at + i);
}

static inline __attribute__((always_inline)) void store_stored(float *at, bool is_bf16, int64_t i,
                                                               vf x)
{
    if (is_bf16)
        vf_store_bf16((uint16_t *)at + i, x);
    else
        vf_store(at + i, x);
}

#endif
