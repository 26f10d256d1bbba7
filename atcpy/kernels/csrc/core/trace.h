/* What a run that is profiled notes: how long each task took in total, and when each launch ran.
 */
#ifndef ATC_TRACE_H
#define ATC_TRACE_H

#include "core/clock.h"

#include <stdatomic.h>
#include <stddef.h>

struct atc_task_total {
    int64_t elapsed_ns, runs;
};

/* A launch of a task. Those that decide which tasks run (control.h) have totals only. */
struct atc_event {
    int64_t start_ns, end_ns; /* of atc_now_ns */
    int64_t task;
    int64_t thread; /* that ran it, or gave its items to others; 0: the one that called the run */
};

struct atc_trace {
    struct atc_task_total *totals; /* one a task, to which is added */
    struct atc_event *events;
    int64_t max_events;
    _Atomic int64_t n_events; /* also counts those beyond max_events, which are not kept */
};

/* Adds to the total of a task. No two threads run one at the same time. */
static inline void atc_trace_total(struct atc_trace *trace, int64_t task, int64_t elapsed_ns)
{
    trace->totals[task].elapsed_ns += elapsed_ns;
    trace->totals[task].runs++;
}

static inline void atc_trace_put(struct atc_trace *trace, int64_t number,
                                 const struct atc_event *event)
{
    atc_trace_total(trace, event->task, event->end_ns - event->start_ns);
    if (number < trace->max_events)
        trace->events[number] = *event;
}

/* Notes a launch while no other thread does. */
static inline void atc_trace_launch(struct atc_trace *trace, const struct atc_event *event)
{
    const int64_t number = atomic_load_explicit(&trace->n_events, memory_order_relaxed);
    atomic_store_explicit(&trace->n_events, number + 1, memory_order_relaxed);
    atc_trace_put(trace, number, event);
}

/* Notes a launch beside other threads that note theirs. */
static inline void atc_trace_launch_beside(struct atc_trace *trace, const struct atc_event *event)
{
    atc_trace_put(trace, atomic_fetch_add(&trace->n_events, 1), event);
}

#endif
