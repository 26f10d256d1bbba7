/* classify, by loops that the compiler makes vectors of. */
#include "elementwise/classify.h"

#define DEFINE_SIZE(type)                                                                          \
    static void classify_##type(const struct kernel_args *args)                                    \
    {                                                                                              \
        const struct classify_params *p = args->params;                                            \
        const type *restrict x = args->src[0];                                                     \
        uint8_t *restrict y = args->dst[0];                                                        \
        const type mask = (type)p->mask, low = (type)p->low, high = (type)p->high;                 \
        const int64_t end = min_i64(args->end * CLASSIFY_CHUNK, p->n);                             \
        for (int64_t i = args->begin * CLASSIFY_CHUNK; i < end; i++)                               \
            y[i] = (x[i] & mask) >= low && (x[i] & mask) <= high;                                  \
    }

DEFINE_SIZE(uint8_t)
DEFINE_SIZE(uint16_t)
DEFINE_SIZE(uint32_t)
DEFINE_SIZE(uint64_t)

static void classify_items(const struct kernel_args *args)
{
    switch (((const struct classify_params *)args->params)->item) {
    case 1:
        classify_uint8_t(args);
        break;
    case 2:
        classify_uint16_t(args);
        break;
    case 4:
        classify_uint32_t(args);
        break;
    default:
        classify_uint64_t(args);
    }
}

void FOR_ISA(classify_any)(const struct kernel_args *args)
{
    classify_items(args);
}
