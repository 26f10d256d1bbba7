/* What a CPU can do at most, measured: the two lines of a roofline, which profiles compare with. */
#ifndef ATC_ROOFLINE_H
#define ATC_ROOFLINE_H

#include <stdint.h>

/* A loop of products that are added up; it returns a number that depends on all of them. */
struct roofline_products {
    int64_t operations; /* of a step */
    float (*multiply_add)(int64_t steps);
};

/* What an ISA brings. `read` returns a number that depends on all that it reads. */
struct roofline_isa {
    struct roofline_products float32;
    float (*read)(const float *at, int64_t floats); /* a multiple of ROOFLINE_READ */
};

enum { ROOFLINE_READ = 256 };

extern const struct roofline_isa roofline_scalar, roofline_sse2, roofline_neon, roofline_avx2,
    roofline_avx512f;
extern const struct roofline_products roofline_bytes_avx512vnni, roofline_pairs_avx512bf16;

/* What products multiply; their sums have 32 bits. */
enum product_type { PRODUCT_FLOAT32, PRODUCT_BFLOAT16, PRODUCT_INT8, PRODUCT_TYPES };
extern const char *const atc_product_types[PRODUCT_TYPES];

/* Operations a second, of which a multiplication with an addition is two, and bytes read a second
 * where `bytes` are read again and again: each by as many threads, on the ISA in use. Both take
 * some milliseconds. Operations are 0 if the ISA has no products of that type, or they are not
 * measured; bandwidth is negative if there is no memory.
 */
double atc_peak_operations(int threads, enum product_type type);
double atc_peak_bandwidth(int threads, int64_t bytes);

#endif
