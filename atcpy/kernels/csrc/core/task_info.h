/* The tasks of a TASK_INFO partition, which is a domi.ModelTaskDef (om/schema/task.proto).
 *
 * Nothing else reads them: protobuf makes several objects of each, and a package may have
 * thousands. It reads the fields beside them, and nobody what a task has that is not listed here.
 * As in protobuf, a field of another wire type than it should have is unknown, and of one that is
 * repeated the last counts.
 */
#ifndef ATC_TASK_INFO_H
#define ATC_TASK_INFO_H

#include <stddef.h>
#include <stdint.h>

struct atc_span {
    const uint8_t *at;
    size_t size;
};

/* A TaskDef: a launch, and what the messages around its record say of it, or the program of a plan.
 */
struct atc_task_entry {
    struct atc_span record, kernel_name, program;
    uint32_t args_size, op_index;
};

enum atc_info_field {
    INFO_END,
    INFO_TASK,
    INFO_OTHER,
    INFO_MALFORMED,
};

/* Reads the first field of `left`, of which it is taken. `entry` gets a task, `field` the bytes of
 * any field, with its header.
 */
enum atc_info_field atc_next_info_field(struct atc_span *left, struct atc_task_entry *entry,
                                        struct atc_span *field);

#endif
