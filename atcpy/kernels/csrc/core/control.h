/* Control flow within a plan: records of the families `if`, `loop` and `stream_active` say how
 * often, whether at all, and beside which others the tasks behind them run.
 *
 *     if             src: condition, a bool
 *                    the next then_tasks tasks run if it is true, the else_tasks behind those if it
 *                    is false
 *     loop           src: trip count, an int64, or none; condition, a bool, or none; dst: counter,
 *                    an int64
 *                    the next body_tasks tasks run as long as the counter is below the trip count
 *                    and the condition is true. Without an operand for it, the trip count is
 *                    `trip_count`, or none if that is -1. An operand of 2^63 - 1 is none, too:
 *                    exporters write it so.
 *     stream_active  the next body_tasks tasks run stream by stream, or the streams beside each
 *                    other: streams.h
 *
 * Values that iterations carry on lie where the body finds and leaves them: its tasks update them.
 * Tasks that an `if` or a `loop` runs may be such records again.
 */
#ifndef ATC_CONTROL_H
#define ATC_CONTROL_H

#include "core/kernel.h"

/* A loop without a trip count, which may never end, is stopped after so many iterations. What
 * bounds one with a trip count is the deadline. */
enum { ATC_MAX_ITERATIONS = 1000000 };

/* How deep regions of tasks may be nested: an `if` is two of them. */
enum { ATC_MAX_REGIONS = 32 };

#define IF_FIELDS(I64, I64S, F64, ENUM) I64(then_tasks) I64(else_tasks)
DECLARE_PARAMS(if, IF_FIELDS)

#define LOOP_FIELDS(I64, I64S, F64, ENUM) I64(body_tasks) I64(trip_count)
DECLARE_PARAMS(loop, LOOP_FIELDS)

#define STREAM_ACTIVE_FIELDS(I64, I64S, F64, ENUM) I64(body_tasks)
DECLARE_PARAMS(stream_active, STREAM_ACTIVE_FIELDS)

#endif
