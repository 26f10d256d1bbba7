/* strided_copy: dst[dst_offset + i · dst_strides] = src[src_offset + i · src_strides] for every
 * index i below dims; without a source: = value.
 *
 * Strides and offsets count elements of `item` bytes: 1, 2, 4, 8 or 16. Source strides may be zero
 * or negative; destination strides are positive where their dim is above 1. Only what the indices
 * reach is written. Where source and destination are the same memory, nothing may move. `value`
 * holds the bits of an element, in its lowest bytes; of 16 bytes, all are zero.
 */
#ifndef ATC_STRIDED_COPY_H
#define ATC_STRIDED_COPY_H

#include "core/kernel.h"

#define STRIDED_COPY_FIELDS(I64, I64S, F64, ENUM)                                                  \
    I64(rank)                                                                                      \
    I64S(dims, 8) I64S(src_strides, 8) I64S(dst_strides, 8) I64(src_offset) I64(dst_offset)        \
        I64(item) I64(value)
DECLARE_PARAMS(strided_copy, STRIDED_COPY_FIELDS)

/* Two dims of a copy, `rows` and `columns`, with their strides in elements. `dst` lies along the
 * columns where they are of stride 1.
 */
struct plate {
    int64_t rows, src_row, dst_row;
    int64_t columns, src_column, dst_column;
    bool is_streamed; /* the whole destination is larger than caches */
};

/* Copies one plate; `dst` and `src` point to its first element. */
typedef void (*copy_plate)(uint8_t *dst, const uint8_t *src, const struct plate *plate);

/* Runs the items of a call, plate by plate. A fill reads its one element through strides of 0. */
void strided_copy_drive(const struct kernel_args *args, copy_plate copy);

/* True for a transpose of elements of 4 bytes, or of 1, 2 and 8: what the vector rows take. */
bool strided_copy_transposes_b32(const struct task_view *task);
bool strided_copy_transposes(const struct task_view *task);

#endif
