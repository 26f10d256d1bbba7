/* Exponents by the bits of floats, where no instruction splits them off: on the vectors and
 * comparisons that the header which includes this one has defined.
 */
#ifndef ATC_VECTOR_BITS_H
#define ATC_VECTOR_BITS_H

#include <stdint.h>

typedef int32_t vi __attribute__((vector_size(4 * VF)));
typedef uint32_t vu __attribute__((vector_size(4 * VF))); /* wraps around */

/* x = m · 2^e with m in [3/4, 3/2), for x finite and above 0; returns m */
static inline vf vf_split(vf x, vf *e)
{
    const vm small = vf_lt(x, vf_set1(1.17549435e-38f)); /* below the normal range */
    const vf normal = vf_select(small, x * vf_set1(8388608.0f), x);
    const vu bits = (vu)normal;
    /* Rounds the exponent up from a mantissa of 3/2 on. */
    const vi exponent = (vi)(bits - 0x3f400000) >> 23;
    *e = __builtin_convertvector(exponent, vf) - vf_select(small, vf_set1(23.0f), vf_set1(0.0f));
    return (vf)(bits - ((vu)exponent << 23));
}

#endif
