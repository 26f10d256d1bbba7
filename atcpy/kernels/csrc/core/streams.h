/* Streams: tasks of a plan that run beside each other.
 *
 * The tasks behind a record `stream_active` are its section. Each is of the stream that its record
 * names; those of one stream follow each other, and streams have ascending numbers. A section runs
 * in the order of its tasks, each on all threads, or its streams run beside each other, each on one
 * thread: what takes less is decided when the plan is loaded, for the threads that it has.
 *
 * Nothing orders the tasks of two streams: the loader refuses a section in which one writes what
 * another reads or writes. What comes behind a section waits for all of it.
 */
#ifndef ATC_STREAMS_H
#define ATC_STREAMS_H

#include "core/kernel.h"

enum { ATC_MAX_STREAMS = 64 }; /* of a section */

/* An operand of a task in a section. */
struct atc_access {
    uint32_t base; /* memory in which offsets count */
    uint32_t stream;
    uint64_t begin, end; /* bytes */
    bool writes;
};

/* Whether some byte is written in one stream and read or written in another. Sorts the accesses. */
bool atc_streams_race(struct atc_access *accesses, size_t n);

/* What a section takes, in element operations, as its tasks are added stream by stream. */
struct atc_section_cost {
    int threads;
    int64_t in_order;              /* task after task, each on all threads */
    int64_t of_stream;             /* the tasks of the present stream, on one thread */
    int64_t busy[ATC_MAX_STREAMS]; /* each thread with the streams that it has run, longest first */
};

void atc_section_begin(struct atc_section_cost *section, int threads);
void atc_section_add(struct atc_section_cost *section, int64_t work, int64_t items);
void atc_section_end_stream(struct atc_section_cost *section);
/* Whether streams beside each other take clearly less than tasks in order. */
bool atc_section_pays(const struct atc_section_cost *section);

#endif
