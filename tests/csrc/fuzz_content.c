#include "fuzz_content.h"
#include "fuzz.h"

#include <string.h>

static float any_float(bool is_tame)
{
    static const float edges[] = {0.0f, -0.0f, 1e30f, -1e30f, 1e-40f, -1e-40f, 65504.0f, 1e9f};
    if (is_tame || fuzz_any(8) != 0)
        return (float)((int)fuzz_any(256) - 128) / 32;
    const uint64_t number = fuzz_any(sizeof edges / sizeof edges[0] + 3);
    if (number < sizeof edges / sizeof edges[0])
        return edges[number];
    const uint64_t beyond = number - sizeof edges / sizeof edges[0];
    return beyond == 0 ? __builtin_nanf("") : beyond == 1 ? __builtin_inff() : -__builtin_inff();
}

/* Mostly indices below `bound`; else negative ones, and any numbers. */
static int64_t any_integer(bool is_tame, int64_t bound)
{
    const int64_t index = (int64_t)fuzz_any((uint64_t)bound);
    if (is_tame)
        return index;
    switch (fuzz_any(16)) {
    case 0:
        return -1 - index;
    case 1:
        return bound + (int64_t)fuzz_any(2);
    case 2:
        return fuzz_any(2) ? INT64_MAX : INT64_MIN;
    case 3:
        return (int64_t)fuzz_any(UINT64_MAX);
    default:
        return index;
    }
}

enum { PATTERN = 256 }; /* elements that are drawn; larger operands repeat them */

void fill_content(uint8_t *to, int64_t bytes, int dtype, bool is_tame, int64_t bound)
{
    const int64_t item = atc_item_bytes(dtype) > 0 ? atc_item_bytes(dtype) : 1;
    const int64_t drawn = min_i64(bytes, PATTERN * item);
    for (int64_t at = 0; at + item <= drawn; at += item) {
        const int64_t integer = any_integer(is_tame, bound);
        const float real = any_float(is_tame);
        const double wide = (double)real;
        switch (dtype) {
        case DTYPE_F32:
        case DTYPE_C64:
            memcpy(to + at, &real, 4);
            if (item == 8)
                memcpy(to + at + 4, &real, 4);
            break;
        case DTYPE_F64:
        case DTYPE_C128:
            memcpy(to + at, &wide, 8);
            if (item == 16)
                memcpy(to + at + 8, &wide, 8);
            break;
        case DTYPE_BOOL:
            to[at] = fuzz_any(32) == 0 && !is_tame ? 2 : integer & 1;
            break;
        case DTYPE_I64:
        case DTYPE_U64:
        case DTYPE_I32:
        case DTYPE_U32:
            memcpy(to + at, &integer, (size_t)item);
            break;
        default: {
            const uint64_t bits = fuzz_any(UINT64_MAX);
            memcpy(to + at, &bits, (size_t)item);
        }
        }
    }
    if (bytes > drawn)
        for (int64_t at = drawn; at < bytes; at += drawn)
            memcpy(to + at, to, (size_t)min_i64(drawn, bytes - at));
}
