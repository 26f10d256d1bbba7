/* Collectives run beside kernels: tasks of the host whose stream is not 0. A task waits for them
 * where it waits for an event that one of them recorded.
 */
#ifndef ATC_COLLECTIVES_H
#define ATC_COLLECTIVES_H

#include "core/plan.h"

/* How many collectives may be under way: the next one waits for the first of them. */
enum { ATC_MAX_UNDER_WAY = 16 };

/* Notes how many collectives must have ended before each task, in `plan->joins`, which stays NULL
 * where there are none. False with the refusal if a task would meet one that is under way in memory
 * that either writes.
 */
bool atc_find_joins(struct atc_plan *plan, struct atc_refusal *refusal);

#endif
