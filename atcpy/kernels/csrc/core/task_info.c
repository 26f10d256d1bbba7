#include "core/task_info.h"

#include <stdbool.h>

enum { VARINT = 0, FIXED_64 = 1, LENGTH = 2, FIXED_32 = 5, WIRE_BITS = 3 };

#define TAG(number, type) ((uint64_t)(number) << WIRE_BITS | (type))

/* Of ModelTaskDef, TaskDef, KernelDef and KernelContext. */
#define MODEL_TASK         TAG(10, LENGTH)
#define TASK_KERNEL        TAG(20, LENGTH)
#define TASK_PRIVATE_DEF   TAG(34, LENGTH)
#define KERNEL_CONTEXT     TAG(1, LENGTH)
#define KERNEL_ARGS_SIZE   TAG(12, VARINT)
#define KERNEL_ARGS        TAG(13, LENGTH)
#define KERNEL_KERNEL_NAME TAG(17, LENGTH)
#define CONTEXT_OP_INDEX   TAG(4, VARINT)

/* How many bytes a varint may have: tags and lengths are of 32 bits. */
enum { SHORT_VARINT = 5, LONG_VARINT = 10 };

struct field {
    uint64_t tag, number;  /* a varint's number */
    struct atc_span bytes; /* of what has a length */
};

static bool read_varint(struct atc_span *left, int max_bytes, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < max_bytes && left->size > 0; i++) {
        const uint8_t byte = *left->at++;
        left->size--;
        *number |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take(struct atc_span *left, uint64_t size, struct atc_span *taken)
{
    if (size > left->size)
        return false;
    *taken = (struct atc_span){left->at, (size_t)size};
    left->at += size;
    left->size -= (size_t)size;
    return true;
}

/* Reads a field of a message, if one is left and it is well formed. */
static bool read_field(struct atc_span *left, struct field *field)
{
    *field = (struct field){0};
    if (!read_varint(left, SHORT_VARINT, &field->tag) || field->tag >> WIRE_BITS == 0 ||
        field->tag > UINT32_MAX)
        return false;
    switch (field->tag & ((1 << WIRE_BITS) - 1)) {
    case VARINT:
        return read_varint(left, LONG_VARINT, &field->number);
    case LENGTH:
        return read_varint(left, SHORT_VARINT, &field->number) &&
               take(left, field->number, &field->bytes);
    case FIXED_64:
        return take(left, sizeof(uint64_t), &field->bytes);
    case FIXED_32:
        return take(left, sizeof(uint32_t), &field->bytes);
    default:
        return false; /* groups, which no message of the schema has */
    }
}

static bool read_context(struct atc_span message, struct atc_task_entry *entry)
{
    struct field field;
    while (message.size > 0) {
        if (!read_field(&message, &field))
            return false;
        if (field.tag == CONTEXT_OP_INDEX)
            entry->op_index = (uint32_t)field.number;
    }
    return true;
}

static bool read_kernel(struct atc_span message, struct atc_task_entry *entry)
{
    struct field field;
    while (message.size > 0) {
        if (!read_field(&message, &field))
            return false;
        if (field.tag == KERNEL_ARGS)
            entry->record = field.bytes;
        else if (field.tag == KERNEL_ARGS_SIZE)
            entry->args_size = (uint32_t)field.number;
        else if (field.tag == KERNEL_KERNEL_NAME)
            entry->kernel_name = field.bytes;
        else if (field.tag == KERNEL_CONTEXT && !read_context(field.bytes, entry))
            return false;
    }
    return true;
}

static bool read_task(struct atc_span message, struct atc_task_entry *entry)
{
    struct field field;
    *entry = (struct atc_task_entry){0};
    while (message.size > 0) {
        if (!read_field(&message, &field))
            return false;
        if (field.tag == TASK_PRIVATE_DEF)
            entry->program = field.bytes;
        else if (field.tag == TASK_KERNEL && !read_kernel(field.bytes, entry))
            return false;
    }
    return true;
}

enum atc_info_field atc_next_info_field(struct atc_span *left, struct atc_task_entry *entry,
                                        struct atc_span *field)
{
    struct field found;
    if (left->size == 0)
        return INFO_END;
    const uint8_t *const start = left->at;
    if (!read_field(left, &found))
        return INFO_MALFORMED;
    *field = (struct atc_span){start, (size_t)(left->at - start)};
    if (found.tag != MODEL_TASK)
        return INFO_OTHER;
    return read_task(found.bytes, entry) ? INFO_TASK : INFO_MALFORMED;
}
