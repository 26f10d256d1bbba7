/* strided_copy for every ISA: a loop over rows and columns for each item size. */
#include "move/strided_copy.h"
#include "simd/streamed.h"

#include <string.h>

enum { SHORT_RUN = 512, LONG_RUN = 4096, FETCHED_AHEAD = 2048 /* bytes */ };

/* Runs of some cache lines are common (a block of channels), and a call a run would cost more. For
 * long ones, memcpy does whatever the CPU is fastest at.
 */
static void copy_runs(uint8_t *dst, const uint8_t *src, const struct plate *p, int64_t item)
{
    const size_t bytes = (size_t)(p->columns * item);
    const int64_t rows = p->rows, dst_row = p->dst_row * item, src_row = p->src_row * item;
    const bool is_streamed = p->is_streamed && is_streamed_run((int64_t)bytes);
    /* Runs that lie apart are fetched ahead, as the hardware follows none but neighbours. */
    const bool is_apart = is_streamed && src_row != (int64_t)bytes;
    const int64_t ahead = is_apart ? ceil_div(FETCHED_AHEAD, (int64_t)bytes) : rows;
    for (int64_t r = 0; r < rows; r++, dst += dst_row, src += src_row) {
        if (r + ahead < rows)
            for (size_t i = 0; i < bytes; i += STREAMED_LINE)
                __builtin_prefetch(src + ahead * src_row + i);
        if (is_streamed)
            stream_run(dst, src, (int64_t)bytes);
        else if (bytes <= SHORT_RUN)
            copy_short(dst, src, bytes);
        else
            memcpy(dst, src, bytes);
    }
}

/* Fills long runs by memset if the bytes of the value are all the same. */
static bool fill_by_bytes(uint8_t *dst, const uint8_t *src, const struct plate *p, int64_t item)
{
    if (p->src_row != 0 || p->columns * item < LONG_RUN)
        return false;
    for (int64_t i = 1; i < item; i++)
        if (src[i] != src[0])
            return false;
    for (int64_t r = 0; r < p->rows; r++)
        memset(dst + r * p->dst_row * item, src[0], (size_t)(p->columns * item));
    return true;
}

typedef struct {
    uint64_t low, high;
} pair64;

/* The inner loop is the longer one. What a store of bytes might change is read before. Elements are
 * moved by memcpy: a record may name an item size that is not that of its operands' type.
 */
#define DEFINE_COPY(type)                                                                          \
    static void fill_##type(uint8_t *dst, const uint8_t *src, const struct plate *p)               \
    {                                                                                              \
        const int64_t item = sizeof(type), rows = p->rows, columns = p->columns;                   \
        const int64_t src_row = p->src_row * item, dst_row = p->dst_row * item;                    \
        for (int64_t r = 0; r < rows; r++, src += src_row, dst += dst_row) {                       \
            type value;                                                                            \
            memcpy(&value, src, sizeof value);                                                     \
            for (int64_t c = 0; c < columns; c++)                                                  \
                memcpy(dst + c * item, &value, sizeof value);                                      \
        }                                                                                          \
    }                                                                                              \
    /* Every n-th element: a constant where this is inlined, so that loads are whole vectors. */   \
    static inline __attribute__((always_inline)) void every_##type(                                \
        int64_t n, uint8_t *dst, const uint8_t *src, const struct plate *p)                        \
    {                                                                                              \
        const int64_t item = sizeof(type), rows = p->rows, columns = p->columns;                   \
        const int64_t src_row = p->src_row * item, dst_row = p->dst_row * item;                    \
        for (int64_t r = 0; r < rows; r++, src += src_row, dst += dst_row)                         \
            for (int64_t c = 0; c < columns; c++)                                                  \
                memcpy(dst + c * item, src + n * c * item, sizeof(type));                          \
    }                                                                                              \
    static void copy_##type(uint8_t *dst, const uint8_t *src, const struct plate *p)               \
    {                                                                                              \
        const int64_t item = sizeof(type);                                                         \
        if (p->src_column == 1 && p->dst_column == 1) {                                            \
            copy_runs(dst, src, p, item);                                                          \
            return;                                                                                \
        }                                                                                          \
        if (p->src_column == 0 && p->dst_column == 1) {                                            \
            if (!fill_by_bytes(dst, src, p, item))                                                 \
                fill_##type(dst, src, p);                                                          \
            return;                                                                                \
        }                                                                                          \
        if (p->src_column == 2 && p->dst_column == 1) {                                            \
            every_##type(2, dst, src, p);                                                          \
            return;                                                                                \
        }                                                                                          \
        if (p->src_column == 3 && p->dst_column == 1) {                                            \
            every_##type(3, dst, src, p);                                                          \
            return;                                                                                \
        }                                                                                          \
        const bool along = p->columns >= p->rows;                                                  \
        const int64_t outer = along ? p->rows : p->columns;                                        \
        const int64_t inner = along ? p->columns : p->rows;                                        \
        const int64_t src_outer = (along ? p->src_row : p->src_column) * item;                     \
        const int64_t dst_outer = (along ? p->dst_row : p->dst_column) * item;                     \
        const int64_t src_inner = (along ? p->src_column : p->src_row) * item;                     \
        const int64_t dst_inner = (along ? p->dst_column : p->dst_row) * item;                     \
        for (int64_t i = 0; i < outer; i++)                                                        \
            for (int64_t j = 0; j < inner; j++)                                                    \
                memcpy(dst + i * dst_outer + j * dst_inner, src + i * src_outer + j * src_inner,   \
                       sizeof(type));                                                              \
    }
DEFINE_COPY(uint8_t)
DEFINE_COPY(uint16_t)
DEFINE_COPY(uint32_t)
DEFINE_COPY(uint64_t)
DEFINE_COPY(pair64)

void FOR_ISA(strided_copy_any)(const struct kernel_args *args)
{
    const struct strided_copy_params *p = args->params;
    switch (p->item) {
    case 1:
        strided_copy_drive(args, copy_uint8_t);
        break;
    case 2:
        strided_copy_drive(args, copy_uint16_t);
        break;
    case 4:
        strided_copy_drive(args, copy_uint32_t);
        break;
    case 8:
        strided_copy_drive(args, copy_uint64_t);
        break;
    default:
        strided_copy_drive(args, copy_pair64);
    }
}
