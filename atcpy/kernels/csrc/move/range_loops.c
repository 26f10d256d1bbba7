/* range for every ISA: one loop for each type. */
#include "move/range.h"

/* By sums, which take fewer instructions than products and wrap to the same numbers. `wide` counts
 * and multiplies.
 */
#define DEFINE_WHOLE_RANGE(type, wide)                                                             \
    static void count_##type(const struct kernel_args *args, int64_t begin, int64_t end)           \
    {                                                                                              \
        enum { RUN = 64 };                                                                         \
        const wide delta = (wide)*(const type *)args->src[RANGE_DELTA];                            \
        wide first = (wide)*(const type *)args->src[RANGE_START] + (wide)begin * delta;            \
        wide steps[RUN];                                                                           \
        for (int64_t i = 0; i < RUN; i++)                                                          \
            steps[i] = (wide)i * delta;                                                            \
        type *restrict dst = args->dst[0];                                                         \
        int64_t at = begin;                                                                        \
        for (; at + RUN <= end; at += RUN, first += (wide)RUN * delta)                             \
            for (int64_t i = 0; i < RUN; i++)                                                      \
                dst[at + i] = (type)(first + steps[i]);                                            \
        for (int64_t i = at; i < end; i++)                                                         \
            dst[i] = (type)(first + steps[i - at]);                                                \
    }

#define DEFINE_RANGE(type, wide)                                                                   \
    static void count_##type(const struct kernel_args *args, int64_t begin, int64_t end)           \
    {                                                                                              \
        const wide start = (wide)*(const type *)args->src[RANGE_START];                            \
        const wide delta = (wide)*(const type *)args->src[RANGE_DELTA];                            \
        type *dst = args->dst[0];                                                                  \
        for (int64_t i = begin; i < end; i++)                                                      \
            dst[i] = (type)(start + (wide)i * delta);                                              \
    }
DEFINE_WHOLE_RANGE(int16_t, uint32_t)
DEFINE_WHOLE_RANGE(int32_t, uint32_t)
DEFINE_WHOLE_RANGE(int64_t, uint64_t)
DEFINE_RANGE(float, float)
DEFINE_RANGE(double, double)

void FOR_ISA(range_any)(const struct kernel_args *args)
{
    const struct range_params *p = args->params;
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t begin = item * RANGE_CHUNK, end = min_i64(begin + RANGE_CHUNK, p->n);
        switch (p->dtype) {
        case DTYPE_I16:
            count_int16_t(args, begin, end);
            break;
        case DTYPE_I32:
            count_int32_t(args, begin, end);
            break;
        case DTYPE_I64:
            count_int64_t(args, begin, end);
            break;
        case DTYPE_F32:
            count_float(args, begin, end);
            break;
        default:
            count_double(args, begin, end);
        }
    }
}
