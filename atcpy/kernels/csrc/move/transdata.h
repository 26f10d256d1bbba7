/* transdata: between plain [n, c, hw] and blocked [n, ⌈c/c0⌉, hw, c0].
 *
 * To blocked, channels beyond c are zero; from blocked, they are not read. `item` is the size of an
 * element in bytes: 1, 2, 4 or 8.
 */
#ifndef ATC_TRANSDATA_H
#define ATC_TRANSDATA_H

#include "core/kernel.h"

#define TRANSDATA_FIELDS(I64, I64S, F64, ENUM)                                                     \
    I64(n) I64(c) I64(hw) I64(c0) I64(to_blocked) I64(item)
DECLARE_PARAMS(transdata, TRANSDATA_FIELDS)

/* One item: some pixels of one block of channels. */
struct transdata_piece {
    int64_t channels; /* that there are, at most c0 */
    int64_t c0, pixels;
    int64_t hw; /* elements from one channel to the next on the plain side */
};

/* `plain` points to the piece's first channel, `blocked` to its first pixel. */
typedef void (*transdata_pack)(uint8_t *blocked, const uint8_t *plain,
                               const struct transdata_piece *piece);
typedef void (*transdata_unpack)(uint8_t *plain, const uint8_t *blocked,
                                 const struct transdata_piece *piece);

void transdata_drive(const struct kernel_args *args, transdata_pack pack, transdata_unpack unpack);

/* True if elements are of 4 bytes, or bytes, in blocks of 16: what the vector rows take. */
bool transdata_is_b32_by_16(const struct task_view *task);
bool transdata_is_b8_by_16(const struct task_view *task);

#endif
