/* Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3" (SC 2011): a block of 128 random bits is a function of a key and a
 * counter. There is no state, so that draws do not depend on how threads share them.
 */
#ifndef ATC_PHILOX_H
#define ATC_PHILOX_H

#include "core/kernel.h"

enum { PHILOX_WORDS = 4, PHILOX_ROUNDS = 10 };

static inline void philox(uint64_t key, uint64_t counter, uint32_t words[PHILOX_WORDS])
{
    uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), c = 0, d = 0;
    uint32_t low_key = (uint32_t)key, high_key = (uint32_t)(key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t of_a = UINT64_C(0xD2511F53) * a, of_c = UINT64_C(0xCD9E8D57) * c;
        a = (uint32_t)(of_c >> 32) ^ b ^ low_key;
        c = (uint32_t)(of_a >> 32) ^ d ^ high_key;
        b = (uint32_t)of_c;
        d = (uint32_t)of_a;
        low_key += 0x9E3779B9;
        high_key += 0xBB67AE85;
    }
    words[0] = a;
    words[1] = b;
    words[2] = c;
    words[3] = d;
}

/* A number in [0, 1), of 53 bits: the sum is exact, and few CPUs have instructions that convert
 * vectors of other integers than signed ones of 32 bits.
 */
static inline double philox_number(uint32_t high, uint32_t low)
{
    const double upper = (double)(int32_t)(high ^ 0x80000000) + 0x1p31;
    return upper * 0x1p-32 + (double)(int32_t)(low >> 11) * 0x1p-53;
}

/* Two of them. */
static inline void philox_uniform(uint64_t key, uint64_t counter, double numbers[2])
{
    uint32_t words[PHILOX_WORDS];
    philox(key, counter, words);
    numbers[0] = philox_number(words[0], words[1]);
    numbers[1] = philox_number(words[2], words[3]);
}

/* The key of a launch: the seed that the model gives, or one of its own. */
static inline uint64_t philox_key(const struct kernel_args *args, int64_t seeded, int64_t seed)
{
    return seeded ? (uint64_t)seed : args->entropy;
}

#endif
