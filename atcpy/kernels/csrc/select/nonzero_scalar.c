/* nonzero, plainly: the elements are counted first, because rows of the result are as long as that.
 */
#include "select/nonzero.h"

#include <string.h>

/* The sign of a float says nothing about being zero. */
#define DEFINE_SIZE(type)                                                                          \
    static bool is_set_##type(const uint8_t *x, int64_t at, bool is_float)                         \
    {                                                                                              \
        type bits;                                                                                 \
        memcpy(&bits, x + at * (int64_t)sizeof bits, sizeof bits);                                 \
        return (is_float ? (type)(bits << 1) : bits) != 0;                                         \
    }

DEFINE_SIZE(uint8_t)
DEFINE_SIZE(uint16_t)
DEFINE_SIZE(uint32_t)
DEFINE_SIZE(uint64_t)

typedef bool (*is_set)(const uint8_t *x, int64_t at, bool is_float);

static is_set test_of(int64_t item)
{
    return item == 1   ? is_set_uint8_t
           : item == 2 ? is_set_uint16_t
           : item == 4 ? is_set_uint32_t
                       : is_set_uint64_t;
}

void nonzero_any_scalar(const struct kernel_args *args)
{
    const struct nonzero_params *p = args->params;
    if (args->begin == args->end)
        return;
    const is_set test = test_of(p->item);
    const uint8_t *x = args->src[0];
    int64_t *y = args->dst[NONZERO_Y], *count = args->dst[NONZERO_COUNT];
    int64_t elements = 1, found = 0, next = 0, place[ATC_MAX_RANK] = {0};
    for (int64_t i = 0; i < p->rank; i++)
        elements *= p->dims[i];
    for (int64_t at = 0; at < elements; at++)
        found += test(x, at, p->is_float != 0);
    *count = found;
    for (int64_t at = 0; at < elements && next < found; at++) {
        if (test(x, at, p->is_float != 0)) {
            for (int64_t i = 0; i < p->rank; i++)
                y[i * found + next] = place[i];
            next++;
        }
        for (int64_t i = p->rank - 1; i >= 0 && ++place[i] == p->dims[i]; i--)
            place[i] = 0;
    }
}
