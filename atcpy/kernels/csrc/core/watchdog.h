/* Ends the process in time while it waits in a library that neither Python nor a signal reaches. */
#ifndef ATC_WATCHDOG_H
#define ATC_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

/* Unless it is stopped within so many nanoseconds, writes `text` to stderr and ends the process
 * with `code`. There is one watchdog: starting it again restarts it. False: no memory or no thread.
 */
bool atc_watchdog_start(int64_t after_ns, const char *text, int code);
void atc_watchdog_stop(void);

#endif
