/* resize2d by nearest pixels: those of a row, by loops of which the compiler makes vectors. */
#include "signal/resize2d.h"

#include <string.h>

#define PICK(bytes)                                                                                \
    case bytes:                                                                                    \
        for (int64_t x = 0; x < n; x++)                                                            \
            memcpy(dst + x * bytes, src + low[x] * (int64_t)bytes, bytes);                         \
        break;

/* One row: pixels of common sizes are moved without a call. */
static void pick_pixels(uint8_t *restrict dst, const uint8_t *restrict src,
                        const int32_t *restrict low, int64_t n, int64_t bytes)
{
    switch (bytes) {
        PICK(1)
        PICK(2)
        PICK(4)
        PICK(8)
        PICK(16)
        PICK(32)
        PICK(64)
        PICK(128)
    default:
        for (int64_t x = 0; x < n; x++)
            memcpy(dst + x * bytes, src + low[x] * bytes, (size_t)bytes);
    }
}

#define PUT_TWICE(row)                                                                             \
    memcpy(row + 2 * x * (int64_t)sizeof pixel, &pixel, sizeof pixel);                             \
    memcpy(row + (2 * x + 1) * (int64_t)sizeof pixel, &pixel, sizeof pixel);

#define DOUBLE(type)                                                                               \
    case sizeof(type): {                                                                           \
        type pixel;                                                                                \
        if (also == NULL)                                                                          \
            for (int64_t x = 0; x < n; x++) {                                                      \
                memcpy(&pixel, src + x * (int64_t)sizeof pixel, sizeof pixel);                     \
                PUT_TWICE(dst)                                                                     \
            }                                                                                      \
        else                                                                                       \
            for (int64_t x = 0; x < n; x++) {                                                      \
                memcpy(&pixel, src + x * (int64_t)sizeof pixel, sizeof pixel);                     \
                PUT_TWICE(dst)                                                                     \
                PUT_TWICE(also)                                                                    \
            }                                                                                      \
        break;                                                                                     \
    }

static void double_pixels(uint8_t *restrict dst, uint8_t *restrict also,
                          const uint8_t *restrict src, int64_t n, int64_t bytes)
{
    switch (bytes) {
        DOUBLE(uint8_t)
        DOUBLE(uint16_t)
        DOUBLE(uint32_t)
        DOUBLE(uint64_t)
    default:
        for (int64_t x = 0; x < 2 * n; x++) {
            memcpy(dst + x * bytes, src + x / 2 * bytes, (size_t)bytes);
            if (also != NULL)
                memcpy(also + x * bytes, src + x / 2 * bytes, (size_t)bytes);
        }
    }
}

void LOOPS_FOR_ISA(resize2d_any)(const struct kernel_args *args)
{
    resize2d_nearest(args, pick_pixels, double_pixels);
}
