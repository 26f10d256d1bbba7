/* The task record: what the package stores of a kernel launch, and what the loader checks.
 *
 * A record has one fixed size and one encoding: little endian, reserved bytes zero. Sizes and
 * offsets are in bytes. Nothing in it is trusted before plan.c has checked it.
 */
#ifndef ATC_TASK_H
#define ATC_TASK_H

#include <assert.h>
#include <stdint.h>

enum {
    ATC_FAMILY_BYTES = 24,
    ATC_MAX_SLOTS = 12,
    ATC_PARAM_BYTES = 304,
    ATC_TASK_BYTES = 640,
    ATC_MAX_RANK = 8,
};

/* Numbers as in atcpy/ir/compiled.py. */
enum atc_region {
    REGION_NONE = 0,
    REGION_ARENA = 1,
    REGION_WEIGHTS = 2,
    REGION_INPUT = 3,
    REGION_OUTPUT = 4,
};

/* Element types, by their number in ONNX's TensorProto.DataType. */
enum atc_dtype {
    DTYPE_ANY = 0,
    DTYPE_F32 = 1,
    DTYPE_U8 = 2,
    DTYPE_I8 = 3,
    DTYPE_U16 = 4,
    DTYPE_I16 = 5,
    DTYPE_I32 = 6,
    DTYPE_I64 = 7,
    DTYPE_BOOL = 9,
    DTYPE_F16 = 10,
    DTYPE_F64 = 11,
    DTYPE_U32 = 12,
    DTYPE_U64 = 13,
    DTYPE_C64 = 14,
    DTYPE_C128 = 15,
    DTYPE_BF16 = 16,
    DTYPE_F8E4M3FN = 17,
    DTYPE_F8E4M3FNUZ = 18,
    DTYPE_F8E5M2 = 19,
    DTYPE_F8E5M2FNUZ = 20,
    DTYPE_U4 = 21, /* types of less than a byte are packed, the first element in the low bits */
    DTYPE_I4 = 22,
    DTYPE_F4E2M1 = 23,
    DTYPE_F8E8M0 = 24,
    DTYPE_U2 = 25,
    DTYPE_I2 = 26,
};

struct atc_slot {
    uint8_t region;
    uint8_t dtype;
    uint16_t index; /* which input or output of the graph */
    uint32_t reserved;
    uint64_t offset;
    uint64_t bytes;
};

struct atc_task {
    char family[ATC_FAMILY_BYTES]; /* zero padded */
    uint8_t n_src;
    uint8_t n_dst;
    uint16_t reserved0;
    uint32_t stream;
    uint32_t event_wait;   /* 0: none, else event number + 1 */
    uint32_t event_record; /* 0: none, else event number + 1 */
    uint32_t op_index;     /* the node's id in ModelDef */
    uint32_t reserved1;
    struct atc_slot slots[ATC_MAX_SLOTS]; /* sources, then destinations */
    uint8_t params[ATC_PARAM_BYTES];
};

static_assert(sizeof(struct atc_slot) == 24, "a slot is 24 bytes");
static_assert(sizeof(struct atc_task) == ATC_TASK_BYTES, "a task record is 640 bytes");

#endif
