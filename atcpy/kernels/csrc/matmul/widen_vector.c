/* Widening of weights on vectors. */
#include "matmul/widen.h"
#include "simd/vector.h"

static inline __attribute__((always_inline)) void widen(enum weight_type type, const uint16_t *src,
                                                        const float *scale, float *dst, int64_t n)
{
    vf factor[WIDEN_LANES / VF];
#pragma GCC unroll 4
    for (int v = 0; v < WIDEN_LANES / VF; v++)
        factor[v] = scale != NULL ? vf_load(scale + v * VF) : vf_set1(1);
    for (int64_t i = 0; i < n; i += WIDEN_LANES)
#pragma GCC unroll 4
        for (int v = 0; v < WIDEN_LANES / VF; v++) {
            const uint16_t *at = src + i + v * VF;
            const vf x = type == WEIGHTS_F16 ? vf_load_f16(at) : vf_load_bf16(at);
            vf_store(dst + i + v * VF, scale != NULL ? vf_mul(x, factor[v]) : x);
        }
}

/* A pair is a float of its second number whose last bits are those of the first one. */
static void widen_pairs(const uint16_t *src, const float *scale, float *dst, int64_t n)
{
    vf factor[WIDEN_LANES / VF];
#pragma GCC unroll 4
    for (int v = 0; v < WIDEN_LANES / VF; v++)
        factor[v] = scale != NULL ? vf_load(scale + v * VF) : vf_set1(1);
    for (int64_t i = 0; i < n; i += 2 * WIDEN_LANES)
#pragma GCC unroll 4
        for (int v = 0; v < WIDEN_LANES / VF; v++) {
            vf first, second;
            vf_load_bf16_pairs(src + i + 2 * v * VF, &first, &second);
            vf_store(dst + i + v * VF, scale != NULL ? vf_mul(first, factor[v]) : first);
            vf_store(dst + i + WIDEN_LANES + v * VF,
                     scale != NULL ? vf_mul(second, factor[v]) : second);
        }
}

void FOR_ISA(widen)(enum weight_type type, const uint16_t *src, const float *scale, float *dst,
                    int64_t n)
{
    if (type == WEIGHTS_BF16_VNNI2)
        widen_pairs(src, scale, dst, n);
    else if (type == WEIGHTS_F16)
        widen(WEIGHTS_F16, src, scale, dst, n);
    else
        widen(WEIGHTS_BF16, src, scale, dst, n);
}
