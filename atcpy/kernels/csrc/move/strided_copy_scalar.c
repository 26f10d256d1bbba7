/* strided_copy, plainly: a loop over rows and columns for each item size. */
#include "move/strided_copy.h"

#include <string.h>

enum { SHORT_RUN = 64 };

/* Runs of a cache line are common (a block of channels), and a call a run would cost more. */
static void copy_runs(uint8_t *dst, const uint8_t *src, const struct plate *p, int64_t item)
{
    const size_t bytes = (size_t)(p->columns * item);
    for (int64_t r = 0; r < p->rows; r++, dst += p->dst_row * item, src += p->src_row * item) {
        if (bytes == SHORT_RUN)
            memcpy(dst, src, SHORT_RUN);
        else
            memcpy(dst, src, bytes);
    }
}

typedef struct {
    uint64_t low, high;
} pair64;

/* The inner loop is the longer one. Elements are moved by memcpy: a record may name an item size
 * that is not that of its operands' type.
 */
#define DEFINE_COPY(type)                                                                          \
    static void fill_##type(uint8_t *dst, const uint8_t *src, const struct plate *p)               \
    {                                                                                              \
        const int64_t item = sizeof(type);                                                         \
        for (int64_t r = 0; r < p->rows; r++) {                                                    \
            type value;                                                                            \
            memcpy(&value, src + r * p->src_row * item, sizeof value);                             \
            for (int64_t c = 0; c < p->columns; c++)                                               \
                memcpy(dst + (r * p->dst_row + c) * item, &value, sizeof value);                   \
        }                                                                                          \
    }                                                                                              \
    static void copy_##type(uint8_t *dst, const uint8_t *src, const struct plate *p)               \
    {                                                                                              \
        const int64_t item = sizeof(type);                                                         \
        if (p->src_column == 1 && p->dst_column == 1) {                                            \
            copy_runs(dst, src, p, item);                                                          \
            return;                                                                                \
        }                                                                                          \
        if (p->src_column == 0 && p->dst_column == 1) {                                            \
            fill_##type(dst, src, p);                                                              \
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

void strided_copy_any_scalar(const struct kernel_args *args)
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
