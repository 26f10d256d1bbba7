/* The executor: one loop over tasks. Below a microsecond a task, no allocation, no Python. */
#include "core/cpu.h"
#include "core/entropy.h"
#include "core/plan.h"
#include "core/pool.h"

#include <time.h>

enum { POLL_NS = 50000000 };

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

struct launch {
    const struct atc_bound_task *task;
    struct kernel_args args;
    uint8_t *scratch;
    int64_t scratch_bytes;
};

static void run_items(void *context, int64_t begin, int64_t end, int thread)
{
    const struct launch *launch = context;
    struct kernel_args args = launch->args;
    args.scratch = launch->scratch + launch->scratch_bytes * thread;
    args.begin = begin;
    args.end = end;
    launch->task->fn(&args);
}

static void run_task(struct atc_run *run, const struct atc_bound_task *task)
{
    struct launch launch = {
        .task = task,
        .scratch = run->scratch,
        .scratch_bytes = run->plan->scratch_bytes,
        .args = {.params = task->params, .cpu = atc_this_cpu(), .fault = &run->fault}};
    for (int i = 0; i < task->n_src; i++) {
        const struct atc_operand at = task->operands[i];
        launch.args.src[i] = at.base == BASE_NONE ? NULL : run->bases[at.base] + at.offset;
    }
    for (int i = 0; i < task->n_dst; i++) {
        const struct atc_operand at = task->operands[task->n_src + i];
        launch.args.dst[i] = run->bases[at.base] + at.offset;
    }
    if (task->row->family->draws)
        launch.args.entropy = atc_entropy();
    atc_parallel(task->parallel ? run->plan->threads : 1, task->items, run_items, &launch);
}

enum atc_run_status atc_run_tasks(struct atc_run *run, int64_t first, int64_t last)
{
    int64_t before = now_ns(), polled = before;
    for (int64_t i = first; i < last; i++) {
        run_task(run, run->plan->tasks + i);
        if (atomic_load_explicit(&run->fault.code, memory_order_relaxed) != FAULT_NONE) {
            run->task = i;
            return RUN_FAULT;
        }
        /* The clock is read after each task that may have been long, and after every 16th. */
        if (run->elapsed_ns == NULL && !run->plan->tasks[i].parallel && i % 16 != 0)
            continue;
        const int64_t now = now_ns();
        if (run->elapsed_ns != NULL)
            run->elapsed_ns[i] = now - before;
        before = now;
        if (run->interrupted != NULL && now - polled > POLL_NS) {
            polled = now;
            if (run->interrupted()) {
                run->task = i;
                return RUN_INTERRUPTED;
            }
        }
    }
    return RUN_DONE;
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

enum atc_run_status atc_run_iterations(struct atc_run *run, uint8_t **bases,
                                       struct atc_iterations *iterations)
{
    int64_t polled = now_ns();
    for (iterations->done = 0; iterations->done < iterations->count;) {
        const enum atc_run_status status = atc_run_tasks(run, 0, run->plan->n_tasks);
        if (status != RUN_DONE)
            return status;
        iterations->done++;
        const bool ends = iterations->condition >= 0 && *bases[iterations->condition] == 0;
        prepare_next(bases, iterations);
        if (ends)
            break;
        if (iterations->done % 64 == 0 && run->interrupted != NULL && now_ns() - polled > POLL_NS) {
            polled = now_ns();
            if (run->interrupted())
                return RUN_INTERRUPTED;
        }
    }
    return RUN_DONE;
}
