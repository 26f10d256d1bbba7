/* random for every ISA: the generator runs in vectors, and so do the logarithms and angles of
 * float32; those of float64 are C's own.
 */
#include "elementwise/angle_vector.h"
#include "random/philox.h"
#include "random/random.h"

#include <math.h>
#include <string.h>

enum { LANES = 64 }; /* blocks of the generator that are computed side by side */

struct blocks {
    uint32_t words[PHILOX_WORDS][LANES];
};

static void draw_blocks(uint64_t key, uint64_t first, struct blocks *to)
{
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t words[PHILOX_WORDS];
        philox(key, first + (uint64_t)lane, words);
        to->words[0][lane] = words[0];
        to->words[1][lane] = words[1];
        to->words[2][lane] = words[2];
        to->words[3][lane] = words[3];
    }
}

/* Whole steps of the type of the result: a number just below 1 must not become 1 in it. */
static inline double float_number(uint32_t high, uint32_t low)
{
    (void)low;
    return (double)(int32_t)(high >> 8) * 0x1p-24;
}

/* Two numbers of the normal distribution for two in [0, 1), by Box and Muller: to float's
 * precision, and to double's.
 */
static inline void normal_floats(double u, double v, double *first, double *second)
{
    const double radius = sqrt(log2_of(1 - u) * (-2 * 0.69314718055994531));
    const int32_t quarter = (int32_t)(4 * v + 0.5);
    const struct turn turn = turn_by((4 * v - quarter) * 1.5707963267948966, quarter);
    *first = radius * cosine_of_turn(turn);
    *second = radius * sine_of_turn(turn);
}

static inline void normal_doubles(double u, double v, double *first, double *second)
{
    const double radius = sqrt(-2 * log(1 - u)), angle = 2 * 3.14159265358979323846 * v;
    *first = radius * cos(angle);
    *second = radius * sin(angle);
}

#define DEFINE_RANDOM(T, name, uniform, normal)                                                            \
    static void uniform_##T(const struct random_params *p, const struct blocks *blocks, T *y)      \
    {                                                                                              \
        const double a = p->a, range = p->b - p->a;                                                \
        for (int i = 0; i < LANES; i++) {                                                          \
            y[2 * i] = (T)(a + range * uniform(blocks->words[0][i], blocks->words[1][i]));         \
            y[2 * i + 1] = (T)(a + range * uniform(blocks->words[2][i], blocks->words[3][i]));     \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void normal_##T(const struct random_params *p, const struct blocks *blocks, T *y)       \
    {                                                                                              \
        const double mean = p->a, deviation = p->b;                                                \
        for (int i = 0; i < LANES; i++) {                                                          \
            const double u = philox_number(blocks->words[0][i], blocks->words[1][i]);              \
            const double v = philox_number(blocks->words[2][i], blocks->words[3][i]);              \
            double first, second;                                                                  \
            normal(u, v, &first, &second);                                                         \
            y[2 * i] = (T)(mean + deviation * first);                                              \
            y[2 * i + 1] = (T)(mean + deviation * second);                                         \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    void FOR_ISA(name)(const struct kernel_args *args)                                             \
    {                                                                                              \
        const struct random_params *p = args->params;                                              \
        const uint64_t key = philox_key(args, p->seeded, p->seed);                                 \
        const int64_t end = min_i64(args->end * 2 * PAIRS, p->n);                                  \
        for (int64_t i = args->begin * 2 * PAIRS; i < end; i += 2 * LANES) {                       \
            struct blocks blocks;                                                                  \
            T drawn[2 * LANES], *y = (T *)args->dst[0] + i;                                        \
            T *to = end - i >= 2 * LANES ? y : drawn;                                              \
            draw_blocks(key, (uint64_t)i / 2, &blocks);                                            \
            if (p->kind == RANDOM_UNIFORM)                                                         \
                uniform_##T(p, &blocks, to);                                                       \
            else                                                                                   \
                normal_##T(p, &blocks, to);                                                        \
            if (to == drawn)                                                                       \
                memcpy(y, drawn, (size_t)(end - i) * sizeof *y);                                   \
        }                                                                                          \
    }

DEFINE_RANDOM(float, random_f32, float_number, normal_floats)
DEFINE_RANDOM(double, random_f64, philox_number, normal_doubles)
