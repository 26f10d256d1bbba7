/* Ending a run before it is done: for a signal, or because its time is over. */
#ifndef ATC_STOP_H
#define ATC_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum atc_stop_reason { STOP_NONE = 0, STOP_INTERRUPTED = 1, STOP_TIME_OVER = 2 };

/* Threads of a run share it. All read the reason; the calling one also finds it. */
struct atc_stop {
    int (*interrupted)(void); /* whether a signal came, or NULL */
    int64_t deadline_ns;      /* of atc_now_ns, or 0 */
    int64_t asked_ns;         /* signals are looked for a few milliseconds after this */
    atomic_int reason;        /* enum atc_stop_reason */
};

static inline bool atc_is_stopped(const struct atc_stop *stop)
{
    return atomic_load_explicit(&stop->reason, memory_order_relaxed) != STOP_NONE;
}

/* Whether the run is to end. For the calling thread; it may ask as often as it likes: the clock is
 * read each time and compared with the deadline, signals are looked for every few milliseconds.
 */
bool atc_ask_stop(struct atc_stop *stop);

/* atc_ask_stop for a caller that has just read atc_now_ns. */
bool atc_ask_stop_at(struct atc_stop *stop, int64_t now);

#endif
