#include "core/stop.h"

#include "core/clock.h"

enum { ASK_NS = 5000000 };

bool atc_ask_stop(struct atc_stop *stop)
{
    if (atc_is_stopped(stop))
        return true;
    const int64_t now = atc_now_ns();
    enum atc_stop_reason reason = STOP_NONE;
    if (stop->deadline_ns != 0 && now >= stop->deadline_ns) {
        reason = STOP_TIME_OVER;
    } else {
        if (now - stop->asked_ns < ASK_NS)
            return false;
        stop->asked_ns = now;
        if (stop->interrupted != NULL && stop->interrupted())
            reason = STOP_INTERRUPTED;
    }
    atomic_store_explicit(&stop->reason, (int)reason, memory_order_relaxed);
    return reason != STOP_NONE;
}
