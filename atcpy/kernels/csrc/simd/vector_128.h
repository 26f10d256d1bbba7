/* The names of vector.h on four floats, by the vectors of GCC: they become instructions of any CPU
 * with registers of 128 bits. What C has no operator for is in the header of the instruction set.
 */
#ifndef ATC_VECTOR_128_H
#define ATC_VECTOR_128_H

#include "core/half.h"

#include <stdint.h>
#include <string.h>

#ifdef __aarch64__
enum { VF = 4, VF_REGISTERS = 32 };
#else
enum { VF = 4, VF_REGISTERS = 16 };
#endif
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vm __attribute__((vector_size(16))); /* all bits of a lane are set, or none */
typedef double vd_half __attribute__((vector_size(16)));

/* A double per lane: sums of many floats. */
typedef struct {
    vd_half low, high;
} vd;

static inline vf vf_set1(float x)
{
    return (vf){x, x, x, x};
}

static inline vf vf_load(const float *at)
{
    vf x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline void vf_store(float *at, vf x)
{
    memcpy(at, &x, sizeof x);
}

static inline vm vf_lt(vf a, vf b)
{
    return a < b;
}

static inline vm vf_le(vf a, vf b)
{
    return a <= b;
}

static inline vm vf_eq(vf a, vf b)
{
    return a == b;
}

static inline vm vf_is_nan(vf x)
{
    return x != x;
}

static inline vf vf_select(vm mask, vf yes, vf no)
{
    return (vf)((mask & (vm)yes) | (~mask & (vm)no));
}

static inline vf vf_abs(vf x)
{
    return (vf)((vm)x & INT32_MAX);
}

/* x, which is not negative, with the sign of y */
static inline vf vf_with_sign(vf x, vf y)
{
    return (vf)((vm)x | ((vm)y & INT32_MIN));
}

static inline vd vd_zero(void)
{
    return (vd){{0, 0}, {0, 0}};
}

#include "simd/vector_bits.h"
#ifdef __aarch64__
#include "simd/vector_neon.h"
#else
#include "simd/vector_sse2.h"
#endif

/* Lanes beyond the first n become `rest`. */
static inline vf vf_keep_n(vf x, int64_t n, float rest)
{
    const vm lanes = {0, 1, 2, 3};
    return vf_select(lanes < (int32_t)n, x, vf_set1(rest));
}

/* Ends of rows go lane by lane, in functions that are not inlined: loops are unrolled with many. */
static __attribute__((noinline, unused)) vf vf_load_few(const float *at, int64_t n, float rest)
{
    vf x = vf_set1(rest);
    if (n > 0)
        x[0] = at[0];
    if (n > 1)
        x[1] = at[1];
    if (n > 2)
        x[2] = at[2];
    return x;
}

static __attribute__((noinline, unused)) void vf_store_few(float *at, vf x, int64_t n)
{
    if (n > 0)
        at[0] = x[0];
    if (n > 1)
        at[1] = x[1];
    if (n > 2)
        at[2] = x[2];
}

/* The first n floats; the other lanes are `rest`. */
static inline vf vf_load_n(const float *at, int64_t n, float rest)
{
    return n >= VF ? vf_load(at) : vf_load_few(at, n, rest);
}

static inline void vf_store_n(float *at, vf x, int64_t n)
{
    if (n >= VF)
        vf_store(at, x);
    else
        vf_store_few(at, x, n);
}

/* Every second float from `at`; reads 2·VF − 1 floats. */
static inline vf vf_load_even(const float *at)
{
    return __builtin_shuffle(vf_load(at), vf_load(at + VF - 1), (vm){0, 2, 5, 7});
}

/* The floats of `at` that VF indices name. */
static inline vf vf_gather(const float *at, const int32_t *indices)
{
    return (vf){at[indices[0]], at[indices[1]], at[indices[2]], at[indices[3]]};
}

static inline vf vf_load_bf16(const uint16_t *at)
{
    const vu wide = {at[0], at[1], at[2], at[3]};
    return (vf)(wide << 16);
}

/* Rounded to nearest even. */
static inline void vf_store_bf16(uint16_t *at, vf x)
{
    const vu bits = (vu)x, top = bits >> 16;
    const vu rounded = (bits + (top & 1) + 0x7fff) >> 16, quiet = top | 0x40;
    const vu is_nan = (vu)(x != x), halves = (quiet & is_nan) | (rounded & ~is_nan);
    for (int i = 0; i < VF; i++)
        at[i] = (uint16_t)halves[i];
}

/* The first and the second of four pairs of bfloat16, widened. */
static inline void vf_load_bf16_pairs(const uint16_t *at, vf *first, vf *second)
{
    vu pairs;
    memcpy(&pairs, at, sizeof pairs);
    *first = (vf)(pairs << 16);
    *second = (vf)(pairs & 0xffff0000);
}

/* The largest of all lanes; NaN if one is. */
static inline float vf_largest_lane(vf x)
{
    x = vf_max(x, __builtin_shuffle(x, (vm){2, 3, 0, 1}));
    return vf_max(x, __builtin_shuffle(x, (vm){1, 0, 3, 2}))[0];
}

/* to[i] = the sum of the lanes of x[i]. */
static inline void vf_store_sums(float *to, const vf x[4])
{
    const vm even = {0, 2, 4, 6}, odd = {1, 3, 5, 7};
    const vf low = __builtin_shuffle(x[0], x[1], even) + __builtin_shuffle(x[0], x[1], odd);
    const vf high = __builtin_shuffle(x[2], x[3], even) + __builtin_shuffle(x[2], x[3], odd);
    vf_store(to, __builtin_shuffle(low, high, even) + __builtin_shuffle(low, high, odd));
}

/* One byte a lane, 1 where the mask is set */
static inline void vm_store_n(uint8_t *at, vm mask, int64_t n)
{
    const uint32_t bytes = vm_bytes(mask);
    memcpy(at, &bytes, (size_t)n);
}

static inline void vm_store(uint8_t *at, vm mask)
{
    vm_store_n(at, mask, VF);
}

/* The sum of all lanes, in one fixed order. */
static inline double vd_sum(vd total)
{
    const vd_half two = total.low + total.high;
    return two[0] + two[1];
}

#endif
