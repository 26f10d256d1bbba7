/* A plan: checked task records bound to the kernels of this CPU, ready to run. */
#ifndef ATC_PLAN_H
#define ATC_PLAN_H

#include "core/arena_pool.h"
#include "core/kernel.h"
#include "core/pool.h"
#include "core/trace.h"

struct atc_limits {
    int64_t arena_bytes;
    int64_t weight_bytes;
    int64_t n_inputs, n_outputs;
    const int64_t *input_bytes, *output_bytes;
};

struct atc_operand {
    uint32_t base; /* index into an execution's base addresses */
    uint64_t offset;
};

struct atc_bound_task {
    kernel_fn fn; /* NULL: the host runs it */
    const struct kernel_row *row;
    const void *params;
    int64_t items;
    int64_t work;        /* element operations */
    int64_t first_slice; /* items to begin with where a run may have to end between items, or 0 */
    bool parallel;       /* work enough to wake other threads */
    enum atc_control control;
    int n_src, n_dst;
    struct atc_operand operands[ATC_MAX_SLOTS];
};

struct atc_plan {
    int64_t n_tasks;
    struct atc_bound_task *tasks;
    int64_t
        *joins; /* before each task, how many collectives must have ended; NULL: there are none */
    int64_t *stream_ends; /* behind a section's record: where each of its streams ends, `items` */
    struct atc_task *records; /* an aligned copy: kernels read their arguments from it */
    const uint8_t *weights;
    int64_t arena_bytes, scratch_bytes;
    int64_t constants_read; /* bytes that the checks of its tasks have read */
    int64_t n_inputs, n_outputs;
    bool *
        is_cleared; /* the outputs that a run may leave unwritten, set by atc_plan_writes_outputs */
    struct atc_cpu cpu;          /* with the threads of a run, the calling one included */
    struct atc_workers *workers; /* that help */
    struct atc_arena_pool own_arenas;
    struct atc_arena_pool *arenas; /* those, or the ones that it shares with other plans */
};

/* Why a plan was refused, and at which task; -1: at none. */
struct atc_refusal {
    char reason[160];
    int64_t task;
    bool out_of_memory;
};

/* Whether two operands have a byte in common. */
bool atc_slots_overlap(const struct atc_slot *a, const struct atc_slot *b);

/* Fill in the refusal; both return false. */
__attribute__((format(printf, 3, 4))) bool atc_refuse(struct atc_refusal *refusal, int64_t task,
                                                      const char *format, ...);
bool atc_refuse_memory(struct atc_refusal *refusal);

/* What a record that passed its checks needs: how many bytes of each operand its kernels touch at
 * most, those of destinations after those of sources, and what it costs.
 */
struct atc_task_needs {
    int64_t extents[ATC_MAX_SLOTS];
    int64_t read; /* bytes of constants that the check has read */
    struct kernel_cost cost;
};

/* Why the arguments and operands of a record are not such that its family's kernels may run; NULL
 * if they are. That the operands lie inside their regions is not looked at.
 */
const char *atc_check_task(const struct atc_task *task, const struct kernel_family *family,
                           const uint8_t *weights, const struct atc_cpu *cpu,
                           struct atc_task_needs *needs);

/* The first of a family's rows that fits a checked task and an ISA, or is named `only` besides;
 * NULL if there is none.
 */
const struct kernel_row *atc_choose_row(const struct kernel_row *rows, const struct atc_task *task,
                                        enum atc_isa isa, const char *only);

/* Checks `bytes` of task records against the limits and binds each to the first row that fits the
 * CPU, an `isa` at most, or to the row `only` where it is not NULL. `rows` has what atc_find_rows
 * gives for each task, or is NULL. Returns NULL with the refusal.
 */
struct atc_plan *atc_plan_load(const uint8_t *records, size_t bytes, const uint8_t *weights,
                               const struct kernel_row *const *rows,
                               const struct atc_limits *limits, int threads, enum atc_isa isa,
                               const char *only, struct atc_refusal *refusal);
void atc_plan_free(struct atc_plan *plan);

/* Whether tasks write each output to its end. Memory for outputs is not cleared: one that is larger
 * than what is written would hand out what the process left there. Those that only tasks write that
 * a condition may skip are to be cleared before a run. False with the refusal.
 */
bool atc_plan_writes_outputs(struct atc_plan *plan, const int64_t *output_bytes,
                             struct atc_refusal *refusal);

/* Memory of one run: arena_bytes, then one scratch a thread. */
struct atc_arena *atc_plan_take_arena(const struct atc_plan *plan);

/* Base addresses: none, arena, weights, inputs, outputs. */
enum { BASE_NONE = 0, BASE_ARENA = 1, BASE_WEIGHTS = 2, BASE_PORTS = 3 };

enum atc_run_status { RUN_DONE = 0, RUN_FAULT = 1, RUN_INTERRUPTED = 2 };

struct atc_run {
    const struct atc_plan *plan;
    uint8_t *const *bases;
    uint8_t *scratch;
    struct atc_trace *trace; /* or NULL: the run is not profiled */
    struct atc_stop stop;
    struct atc_fault fault;
    int64_t task;       /* where it stopped */
    int64_t stamped_ns; /* when a time was noted last */
    uint32_t ticks;     /* how many tasks have run */
};

/* Runs tasks [first, last), none of which may be the host's, nor any that they control. */
enum atc_run_status atc_run_tasks(struct atc_run *run, int64_t first, int64_t last);

/* What one iteration writes and the next one reads: two ports that exchange their memory. */
struct atc_swap {
    int64_t input, output; /* indices of base addresses */
};

/* A port that has other memory in each iteration: the next `bytes` bytes. */
struct atc_stride {
    int64_t port; /* index of a base address */
    int64_t bytes;
};

/* A plan that runs again and again. */
struct atc_iterations {
    int64_t count; /* at most */
    const struct atc_swap *swaps;
    int64_t n_swaps;
    const struct atc_stride *strides;
    int64_t n_strides;
    int64_t condition; /* index of the base address of a bool: false ends the iterations; or -1 */
    int64_t done;      /* how many there were */
};

/* Runs all tasks, none of which may be the host's, in each iteration; `bases` are those of the run.
 */
enum atc_run_status atc_run_iterations(struct atc_run *run, uint8_t **bases,
                                       struct atc_iterations *iterations);

#endif
