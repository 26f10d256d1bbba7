/* strided_copy on vectors: transposes of elements of 1, 2 and 8 bytes in registers.
 *
 * A stage interleaves vector i with vector i + half, for all i below half: it rotates the bits of
 * an element's index by one, so that vectors and lanes have changed places after log2(side) stages.
 */
#include "move/strided_copy.h"
#include "simd/vector.h"

#include <string.h>

#define LOW_2   {0, 2}
#define HIGH_2  {1, 3}
#define LOW_4   {0, 4, 1, 5}
#define HIGH_4  {2, 6, 3, 7}
#define LOW_8   {0, 8, 1, 9, 2, 10, 3, 11}
#define HIGH_8  {4, 12, 5, 13, 6, 14, 7, 15}
#define LOW_16  {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define HIGH_16 {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}

/* A tile reads so many lines of memory that CPUs do not see each of them go on. */
enum { LINE = 64, AHEAD = 2 * LINE }; /* bytes */

/* A last tile that would be cut begins earlier: it writes some elements once more. */
#define DEFINE_TRANSPOSE(type, side, low, high)                                                    \
    typedef type type##_lanes __attribute__((vector_size(side * sizeof(type))));                   \
    static inline __attribute__((always_inline)) void transpose_##type(                            \
        uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step)                      \
    {                                                                                              \
        type##_lanes a[side], b[side];                                                             \
        const type##_lanes low_lanes = low, high_lanes = high;                                     \
        _Pragma("GCC unroll 16") for (int i = 0; i < side; i++)                                    \
            memcpy(a + i, src + i * src_step, sizeof *a);                                          \
        _Pragma("GCC unroll 4") for (int stage = 1; stage < side; stage *= 2)                      \
        {                                                                                          \
            _Pragma("GCC unroll 8") for (int i = 0; i < side / 2; i++)                             \
            {                                                                                      \
                b[2 * i] = __builtin_shuffle(a[i], a[i + side / 2], low_lanes);                    \
                b[2 * i + 1] = __builtin_shuffle(a[i], a[i + side / 2], high_lanes);               \
            }                                                                                      \
            _Pragma("GCC unroll 16") for (int i = 0; i < side; i++) a[i] = b[i];                   \
        }                                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < side; i++)                                    \
            memcpy(dst + i * dst_step, a + i, sizeof *a);                                          \
    }                                                                                              \
                                                                                                   \
    static void transpose_plate_##type(uint8_t *dst, const uint8_t *src, const struct plate *p)    \
    {                                                                                              \
        const int64_t item = sizeof(type), rows = p->rows, columns = p->columns;                   \
        const int64_t dst_step = p->dst_row * item, src_step = p->src_column * item;               \
        if (rows < side || columns < side) {                                                       \
            for (int64_t r = 0; r < rows; r++)                                                     \
                for (int64_t c = 0; c < columns; c++)                                              \
                    memcpy(dst + r * dst_step + c * item, src + r * item + c * src_step,           \
                           sizeof(type));                                                          \
            return;                                                                                \
        }                                                                                          \
        for (int64_t r = 0; r < rows; r += side) {                                                 \
            const int64_t row = min_i64(r, rows - side);                                           \
            for (int64_t c = 0; c < columns; c += side) {                                          \
                const int64_t column = min_i64(c, columns - side);                                 \
                const uint8_t *from = src + row * item + column * src_step;                        \
                for (int64_t i = 0; i < side && row % (LINE / item) == 0; i++)                     \
                    __builtin_prefetch(from + i * src_step + AHEAD);                               \
                transpose_##type(dst + row * dst_step + column * item, dst_step,                   \
                                 from, src_step);                                                  \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_TRANSPOSE(uint8_t, 16, LOW_16, HIGH_16)
DEFINE_TRANSPOSE(uint16_t, 8, LOW_8, HIGH_8)
#if defined __AVX512F__
DEFINE_TRANSPOSE(uint64_t, 8, LOW_8, HIGH_8)
#elif defined __AVX2__
DEFINE_TRANSPOSE(uint64_t, 4, LOW_4, HIGH_4)
#else
DEFINE_TRANSPOSE(uint64_t, 2, LOW_2, HIGH_2)
#endif

void FOR_ISA(strided_copy_tiles)(const struct kernel_args *args)
{
    const struct strided_copy_params *p = args->params;
    if (p->item == 1)
        strided_copy_drive(args, transpose_plate_uint8_t);
    else if (p->item == 2)
        strided_copy_drive(args, transpose_plate_uint16_t);
    else
        strided_copy_drive(args, transpose_plate_uint64_t);
}
