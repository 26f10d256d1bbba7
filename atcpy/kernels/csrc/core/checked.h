/* Checked arithmetic on sizes that come from a file. The result saturates at ATC_TOO_BIG, which
 * no buffer ever reaches, so that a comparison against the bytes really there fails.
 */
#ifndef ATC_CHECKED_H
#define ATC_CHECKED_H

#include <stdint.h>

#define ATC_TOO_BIG (INT64_C(1) << 47)

/* a · b, or ATC_TOO_BIG if a factor is negative or the product is not below it. */
static inline int64_t atc_mul(int64_t a, int64_t b)
{
    int64_t product;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) || product > ATC_TOO_BIG)
        return ATC_TOO_BIG;
    return product;
}

/* a + b, or ATC_TOO_BIG if a term is negative or the sum is not below it. */
static inline int64_t atc_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) || sum > ATC_TOO_BIG)
        return ATC_TOO_BIG;
    return sum;
}

/* a / b of a count and a number above 0; what is too big stays so. */
static inline int64_t atc_div(int64_t a, int64_t b)
{
    return a >= ATC_TOO_BIG ? ATC_TOO_BIG : a / b;
}

/* The product of n sizes, 1 if there are none. */
static inline int64_t atc_product(const int64_t *sizes, int64_t n)
{
    int64_t product = 1;
    for (int64_t i = 0; i < n; i++)
        product = atc_mul(product, sizes[i]);
    return product;
}

/* The product of three spatial dims. */
static inline int64_t atc_volume(const int64_t *dims)
{
    return atc_product(dims, 3);
}

/* ⌈a / b⌉ of sizes that are checked already. */
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
