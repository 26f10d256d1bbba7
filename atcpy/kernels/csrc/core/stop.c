#include "core/stop.h"

#include "core/clock.h"

enum {
    ASK_NS = 5000000,
    PAUSES = 8, /* times as long as an answer took: it takes Python's lock, which others may keep */
};

static enum atc_stop_reason find_reason(struct atc_stop *stop, int64_t now)
{
    if (stop->deadline_ns != 0 && now >= stop->deadline_ns)
        return STOP_TIME_OVER;
    if (now - stop->asked_ns < ASK_NS)
        return STOP_NONE;
    stop->asked_ns = now;
    if (stop->interrupted == NULL)
        return STOP_NONE;
    const bool is_interrupted = stop->interrupted();
    const int64_t answered_ns = atc_now_ns();
    stop->asked_ns = answered_ns + PAUSES * (answered_ns - now);
    return is_interrupted ? STOP_INTERRUPTED : STOP_NONE;
}

bool atc_ask_stop(struct atc_stop *stop)
{
    return atc_ask_stop_at(stop, atc_now_ns());
}

bool atc_ask_stop_at(struct atc_stop *stop, int64_t now)
{
    if (atc_is_stopped(stop))
        return true;
    const enum atc_stop_reason reason = find_reason(stop, now);
    if (reason != STOP_NONE)
        atomic_store_explicit(&stop->reason, (int)reason, memory_order_relaxed);
    return reason != STOP_NONE;
}
