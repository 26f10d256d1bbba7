/* What a CPU can do at most, measured: the two lines of a roofline, which profiles compare with. */
#ifndef ATC_ROOFLINE_H
#define ATC_ROOFLINE_H

#include <stdint.h>

/* What an ISA brings. Both loops return a number that depends on all that they compute. */
struct roofline_isa {
    int64_t flops; /* of a step */
    float (*multiply_add)(int64_t steps);
    float (*read)(const float *at, int64_t floats); /* a multiple of ROOFLINE_READ */
};

enum { ROOFLINE_READ = 256 };

extern const struct roofline_isa roofline_scalar, roofline_sse2, roofline_neon, roofline_avx2,
    roofline_avx512f;

/* Operations on float32 a second, of which a multiplication with an addition is two, and bytes read
 * a second where `bytes` are read again and again: each by as many threads, on the ISA in use. Both
 * take some milliseconds. Bandwidth is negative if there is no memory.
 */
double atc_peak_flops(int threads);
double atc_peak_bandwidth(int threads, int64_t bytes);

#endif
