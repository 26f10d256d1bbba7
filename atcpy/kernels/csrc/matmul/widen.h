/* Weights of 16 bits. They stay as small in the package and in memory as the model has them; a
 * kernel widens what it is about to use into its scratch, and computes in float32.
 */
#ifndef ATC_WIDEN_H
#define ATC_WIDEN_H

#include "core/half.h"
#include "core/kernel.h"

/* In the order of `weight_types` (widen.c). */
enum weight_type {
    WEIGHTS_F32,
    WEIGHTS_F16,
    WEIGHTS_BF16,
    WEIGHTS_BF16_VNNI2, /* two rows of 16 lie as a row of 16 pairs, one of each */
};

extern const char *const weight_types[];

enum { WIDEN_LANES = 16 };

/* dst[i] = src[i] · scale[i % 16] for n weights of a 16-bit type; without a scale, 1. n is a
 * multiple of 16, and of 32 for pairs, which become two rows again. One function an ISA.
 */
typedef void widen_fn(enum weight_type type, const uint16_t *src, const float *scale, float *dst,
                      int64_t n);
widen_fn widen_scalar, widen_sse2, widen_neon, widen_avx2, widen_avx512f;

static inline int64_t weight_bytes(int64_t type)
{
    return type == WEIGHTS_F32 ? 4 : 2;
}

/* True if a source holds so many weights of a type. */
bool weights_fit(const struct task_view *task, int source, int64_t type, int64_t elements);

/* Weight number i. */
static inline float weight_at(int64_t type, const void *weights, int64_t i)
{
    if (type == WEIGHTS_F32)
        return ((const float *)weights)[i];
    const uint16_t half = ((const uint16_t *)weights)[i];
    return type == WEIGHTS_F16 ? f32_of_f16(half) : f32_of_bf16(half);
}

#endif
