/* The executor: one loop over tasks. Below a microsecond a task, no allocation, no Python. */
#include "core/clock.h"
#include "core/control.h"
#include "core/cpu.h"
#include "core/entropy.h"
#include "core/plan.h"
#include "core/pool.h"
#include "core/streams.h"

#include <assert.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* How long a slice of a long task may take, and how much longer the next one may be: some kernels
 * prepare what several items share.
 */
enum { SLICE_NS = 4000000, MAX_GROWTH = 8 };

struct launch {
    const struct atc_bound_task *task;
    struct kernel_args args;
    uint8_t *scratch;
    int64_t scratch_bytes;
};

/* Items that ran in one call. */
struct slice {
    int64_t items, elapsed_ns;
};

/* True if the larger of two slices took hardly longer: its time goes into what a call prepares for
 * all of its items, such as packed rows.
 */
static bool is_mostly_prepared(const struct slice *a, const struct slice *b)
{
    const struct slice *less = a->items < b->items ? a : b, *more = less == a ? b : a;
    return less->items > 0 && less->items < more->items &&
           more->elapsed_ns < less->elapsed_ns + less->elapsed_ns / 2;
}

/* How many items take about SLICE_NS, after two slices, the first of which may be none. Where a
 * call takes longer whatever its items are, they become so many that they take as long as the rest:
 * calls of few would do that for each.
 */
static int64_t next_slice(const struct slice *before, const struct slice *last)
{
    const int64_t growth = SLICE_NS / (last->elapsed_ns + 1);
    if (growth >= 1)
        return last->items * (growth < MAX_GROWTH ? growth : MAX_GROWTH);
    if (is_mostly_prepared(before, last) || (before->items == 0 && last->items == 1))
        return last->items * 2;
    return last->items > 1 ? last->items / 2 : 1;
}

static_assert((int)ATC_KEPT == (int)POOL_KEPT, "words that a thread keeps between calls");

static void run_items(void *context, struct atc_share *share)
{
    const struct launch *launch = context;
    const int64_t begin = share->begin, end = share->end;
    struct kernel_args args = launch->args;
    args.scratch = launch->scratch + launch->scratch_bytes * share->thread;
    args.kept = share->kept;
    args.thread = share->thread;
    int64_t slice = launch->task->first_slice;
    if (slice == 0) {
        args.begin = begin;
        args.end = end;
        launch->task->fn(&args);
        return;
    }
    struct slice before = {0};
    for (int64_t at = begin; at < end && !atc_stopped(&args); at = args.end) {
        const int64_t start = atc_now_ns();
        args.begin = at;
        args.end = slice < end - at ? at + slice : end;
        launch->task->fn(&args);
        const struct slice last = {args.end - at, atc_now_ns() - start};
        slice = next_slice(&before, &last);
        before = last;
    }
}

static void ask_stop(void *context)
{
    const struct launch *launch = context;
    (void)atc_ask_stop(launch->args.stop);
}

static void *operand(const struct atc_run *run, const struct atc_bound_task *task, int number)
{
    const struct atc_operand at = task->operands[number];
    return at.base == BASE_NONE ? NULL : run->bases[at.base] + at.offset;
}

#ifndef NDEBUG
static bool is_addressable(const void *at, int64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    return __asan_region_is_poisoned((void *)(uintptr_t)at, (size_t)bytes) == NULL;
#else
    return at != NULL || bytes == 0;
#endif
}

/* True if the record still passes its checks, and each operand lies in memory that is as large as
 * the kernel may take it to be.
 */
static bool is_sound(const struct atc_run *run, const struct atc_bound_task *task,
                     const struct launch *launch)
{
    const struct atc_task *record = run->plan->records + (task - run->plan->tasks);
    struct atc_task_needs needs;
    if (atc_check_task(record, task->row->family, run->plan->weights, &run->plan->cpu, &needs) !=
            NULL ||
        needs.cost.items != task->items || needs.cost.scratch > run->plan->scratch_bytes)
        return false;
    for (int i = 0; i < task->n_src + task->n_dst; i++) {
        const void *at = i < task->n_src ? launch->args.src[i] : launch->args.dst[i - task->n_src];
        if (needs.extents[i] > (int64_t)record->slots[i].bytes ||
            !is_addressable(at, needs.extents[i]))
            return false;
    }
    return true;
}
#endif

static struct launch launch_of(struct atc_run *run, const struct atc_bound_task *task,
                               struct atc_fault *fault)
{
    struct launch launch = {
        .task = task,
        .scratch = run->scratch,
        .scratch_bytes = run->plan->scratch_bytes,
        .args = {
            .params = task->params, .cpu = &run->plan->cpu, .fault = fault, .stop = &run->stop}};
    for (int i = 0; i < task->n_src; i++)
        launch.args.src[i] = operand(run, task, i);
    for (int i = 0; i < task->n_dst; i++)
        launch.args.dst[i] = operand(run, task, task->n_src + i);
    if (task->row->family->draws)
        launch.args.entropy = atc_entropy();
    assert(is_sound(run, task, &launch));
    return launch;
}

static void run_task(struct atc_run *run, const struct atc_bound_task *task)
{
    struct launch launch = launch_of(run, task, &run->fault);
    atc_parallel(run->plan->workers, task->parallel ? run->plan->cpu.threads : 1, task->items,
                 run_items, ask_stop, &launch);
}

static bool has_fault(const struct atc_fault *fault)
{
    return atomic_load_explicit(&fault->code, memory_order_relaxed) != FAULT_NONE;
}

/* The streams of a section: where each stopped, and why. */
struct section {
    struct atc_run *run;
    int64_t first;
    const int64_t *ends;
    struct stream_state {
        struct atc_fault fault;
        int64_t task;
    } states[ATC_MAX_STREAMS];
};

/* Whether to look at the clock behind a task: after each that may have been long, and after every
 * 16th.
 */
static bool is_time_to_ask(const struct atc_bound_task *task, uint32_t tasks)
{
    return task->parallel || tasks % 16 == 0;
}

/* Runs a stream on one thread, to its end whatever becomes of the others: which fault is reported
 * does not depend on who was first.
 */
static void run_stream(struct section *section, int64_t number, int thread)
{
    struct atc_run *run = section->run;
    struct stream_state *state = section->states + number;
    state->task = number == 0 ? section->first : section->ends[number - 1];
    for (uint32_t ticks = 1; state->task < section->ends[number]; state->task++, ticks++) {
        const struct atc_bound_task *task = run->plan->tasks + state->task;
        const int64_t start = run->trace == NULL ? 0 : atc_now_ns();
        struct launch launch = launch_of(run, task, &state->fault);
        run_items(&launch, &(struct atc_share){.end = task->items, .thread = thread});
        if (run->trace != NULL)
            atc_trace_launch_beside(run->trace,
                                    &(struct atc_event){start, atc_now_ns(), state->task, thread});
        if (thread == 0 && is_time_to_ask(task, ticks))
            (void)atc_ask_stop(&run->stop);
        if (has_fault(&state->fault) || atc_is_stopped(&run->stop))
            return;
    }
}

static void run_some_streams(void *context, struct atc_share *share)
{
    for (int64_t number = share->begin; number < share->end; number++)
        run_stream(context, number, share->thread);
}

static void ask_stop_of_section(void *context)
{
    const struct section *section = context;
    (void)atc_ask_stop(&section->run->stop);
}

static enum atc_run_status run_section(struct atc_run *run, int64_t number)
{
    const struct atc_bound_task *task = run->plan->tasks + number;
    struct section section = {
        .run = run, .first = number + 1, .ends = run->plan->stream_ends + number + 1};
    atc_parallel(run->plan->workers, run->plan->cpu.threads, task->items, run_some_streams,
                 ask_stop_of_section, &section);
    if (run->trace != NULL)
        run->stamped_ns = atc_now_ns(); /* its tasks noted their own time */
    for (int64_t i = 0; i < task->items; i++) {
        const struct stream_state *state = section.states + i;
        run->task = state->task;
        if (atc_is_stopped(&run->stop))
            return RUN_INTERRUPTED;
        if (has_fault(&state->fault)) {
            atc_note_fault(&run->fault, atomic_load(&state->fault.code), state->fault.value,
                           state->fault.bound);
            return RUN_FAULT;
        }
    }
    return RUN_DONE;
}

/* Notes what a task took since a time was noted last: a launch, or one decision of control flow. */
static void note_time(struct atc_run *run, int64_t number, int64_t now)
{
    if (run->plan->tasks[number].control == CONTROL_NONE)
        atc_trace_launch(run->trace, &(struct atc_event){run->stamped_ns, now, number, 0});
    else
        atc_trace_total(run->trace, number, now - run->stamped_ns);
    run->stamped_ns = now;
}

/* Notes the time of a task, and whether the run is to end before it is done. */
static enum atc_run_status tick(struct atc_run *run, int64_t number)
{
    const bool asks = is_time_to_ask(run->plan->tasks + number, ++run->ticks);
    if (!asks && run->trace == NULL)
        return RUN_DONE;
    const int64_t now = atc_now_ns();
    if (run->trace != NULL)
        note_time(run, number, now);
    if (!asks || !atc_ask_stop_at(&run->stop, now))
        return RUN_DONE;
    run->task = number;
    return RUN_INTERRUPTED;
}

static enum atc_run_status run_range(struct atc_run *run, int64_t first, int64_t last);

static enum atc_run_status run_loop(struct atc_run *run, int64_t number)
{
    const struct atc_bound_task *task = run->plan->tasks + number;
    const struct loop_params *p = task->params;
    const int64_t *trip_count = operand(run, task, 0);
    const uint8_t *condition = operand(run, task, 1);
    int64_t *counter = operand(run, task, 2);
    int64_t limit = trip_count != NULL ? *trip_count : p->trip_count;
    const bool is_counted = trip_count != NULL ? limit != INT64_MAX : limit >= 0;
    if (!is_counted)
        limit = ATC_MAX_ITERATIONS;
    const int64_t first = number + 1, last = first + p->body_tasks;
    int64_t done = 0;
    for (; done < limit && (condition == NULL || *condition != 0); done++) {
        *counter = done;
        enum atc_run_status status = run_range(run, first, last);
        if (status == RUN_DONE)
            status = tick(run, number); /* a body may have no tasks */
        if (status != RUN_DONE)
            return status;
    }
    if (is_counted || done < limit || (condition != NULL && *condition == 0))
        return RUN_DONE;
    atc_note_fault(&run->fault, FAULT_ENDLESS, done, limit);
    run->task = number;
    return RUN_FAULT;
}

static enum atc_run_status run_range(struct atc_run *run, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        const struct atc_bound_task *task = run->plan->tasks + i;
        const int64_t number = i;
        enum atc_run_status status = RUN_DONE;
        if (task->control == CONTROL_IF) {
            const struct if_params *p = task->params;
            const bool is_true = *(const uint8_t *)operand(run, task, 0) != 0;
            const int64_t begin = i + 1 + (is_true ? 0 : p->then_tasks);
            status = run_range(run, begin, begin + (is_true ? p->then_tasks : p->else_tasks));
            i += p->then_tasks + p->else_tasks;
        } else if (task->control == CONTROL_LOOP) {
            status = run_loop(run, i);
            i += ((const struct loop_params *)task->params)->body_tasks;
        } else if (task->control == CONTROL_STREAMS) {
            if (!task->parallel)
                continue; /* its tasks are the next ones */
            status = run_section(run, i);
            i += ((const struct stream_active_params *)task->params)->body_tasks;
        } else {
            run_task(run, task);
            if (atc_is_stopped(&run->stop))
                status = RUN_INTERRUPTED;
            else if (has_fault(&run->fault))
                status = RUN_FAULT;
            if (status != RUN_DONE)
                run->task = i;
        }
        if (status == RUN_DONE)
            status = tick(run, number);
        if (status != RUN_DONE)
            return status;
    }
    return RUN_DONE;
}

enum atc_run_status atc_run_tasks(struct atc_run *run, int64_t first, int64_t last)
{
    run->stamped_ns = run->stop.asked_ns = atc_now_ns();
    const bool counts = atc_enter(run->plan->workers);
    const enum atc_run_status status = run_range(run, first, last);
    atc_leave(run->plan->workers, counts);
    return status;
}

static void prepare_next(uint8_t **bases, const struct atc_iterations *iterations)
{
    for (int64_t i = 0; i < iterations->n_swaps; i++) {
        const struct atc_swap swap = iterations->swaps[i];
        uint8_t *const written = bases[swap.output];
        bases[swap.output] = bases[swap.input];
        bases[swap.input] = written;
    }
    for (int64_t i = 0; i < iterations->n_strides; i++)
        bases[iterations->strides[i].port] += iterations->strides[i].bytes;
}

static enum atc_run_status iterate(struct atc_run *run, uint8_t **bases,
                                   struct atc_iterations *iterations)
{
    for (iterations->done = 0; iterations->done < iterations->count;) {
        const enum atc_run_status status = run_range(run, 0, run->plan->n_tasks);
        if (status != RUN_DONE)
            return status;
        iterations->done++;
        const bool ends = iterations->condition >= 0 && *bases[iterations->condition] == 0;
        prepare_next(bases, iterations);
        if (ends)
            break;
        if (iterations->done % 64 == 0 && atc_ask_stop(&run->stop)) /* a plan may have no tasks */
            return RUN_INTERRUPTED;
    }
    return RUN_DONE;
}

enum atc_run_status atc_run_iterations(struct atc_run *run, uint8_t **bases,
                                       struct atc_iterations *iterations)
{
    run->stamped_ns = run->stop.asked_ns = atc_now_ns();
    const bool counts = atc_enter(run->plan->workers);
    const enum atc_run_status status = iterate(run, bases, iterations);
    atc_leave(run->plan->workers, counts);
    return status;
}
