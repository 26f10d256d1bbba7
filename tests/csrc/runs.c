/* Runs of plans by many threads at once: they share plans, pools of arenas and the workers, end by
 * faults, deadlines and interrupts, while other threads load and free plans, and the process forks.
 * Each run that is done has the right result. Built with -fsanitize=thread, and with kernels of its
 * own: those of the table would take minutes to compile.
 */
#include "core/clock.h"
#include "core/control.h"
#include "core/pieces.h"
#include "core/plan.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CALLERS = 3,
    LOADERS = 2,
    RUNS = 400,
    LOADS = 200,
    FORKS = 5,
    THREADS = 3,
    CORES = 8, /* so that workers help all of them */
    ELEMENTS = 1000,
    MAX_VALUE = 1 << 20,
    TURNS = 5,
    STREAMS = 4, /* each with its part of the elements */
    SECTION = 3,
    TASKS = SECTION + 1 + 2 * STREAMS,
    MAX_EVENTS = 10, /* fewer than there are launches */
};

/* --- the kernels ----------------------------------------------------------------------------- */

/* add: y[i] = x[i] + amount; a fault where that is more than MAX_VALUE. y may be x. */
#define ADD_FIELDS(I64, I64S, F64, ENUM) I64(n) I64(amount)
DECLARE_PARAMS(add, ADD_FIELDS)

static const char *check_add(const struct task_view *task)
{
    const struct add_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1 || !ATC_SIZES_OK(0, p->n) ||
        !atc_holds(task, task->src, DTYPE_I64, p->n, 8) ||
        !atc_holds(task, task->dst, DTYPE_I64, p->n, 8))
        return "not an addition";
    return NULL;
}

/* Work enough for all threads, and for slices. */
static struct kernel_cost cost_add(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct add_params *p = params;
    return (struct kernel_cost){.items = p->n, .work = atc_mul(p->n, 1 << 12), .scratch = 64};
}

DEFINE_FAMILY(add, ADD_FIELDS, .check = check_add, .cost = cost_add, .inplace = 1);
extern const struct kernel_family family_if, family_loop, family_stream_active;

static void add_i64_scalar(const struct kernel_args *args)
{
    const struct add_params *p = args->params;
    const int64_t *x = args->src[0];
    int64_t *y = args->dst[0], *private = args->scratch;
    for (int64_t i = args->begin; i < args->end && !atc_stopped(args); i++) {
        *private = x[i] + p->amount;
        if (*private > MAX_VALUE)
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, *private, MAX_VALUE);
        y[i] = *private;
    }
}

static void nothing(const struct kernel_args *args)
{
    (void)args;
}

const struct kernel_row kernel_table[] = {
    {"add_i64_scalar", add_i64_scalar, &family_add, DTYPE_I64, ISA_SCALAR, NULL},
    {"control_if", nothing, &family_if, DTYPE_ANY, ISA_SCALAR, NULL},
    {"control_loop", nothing, &family_loop, DTYPE_ANY, ISA_SCALAR, NULL},
    {"control_stream_active", nothing, &family_stream_active, DTYPE_ANY, ISA_SCALAR, NULL},
};
const int kernel_table_rows = (int)(sizeof kernel_table / sizeof kernel_table[0]);

const struct kernel_row *atc_find_rows(const char *name)
{
    for (int i = 0; i < kernel_table_rows; i++)
        if (strcmp(kernel_table[i].family->name, name) == 0)
            return kernel_table + i;
    return NULL;
}

/* --- the plan -------------------------------------------------------------------------------- */

enum { BYTES = ELEMENTS * 8, COUNTER_AT = BYTES, ARENA_BYTES = BYTES + 64 };

static const struct atc_slot input = {.region = REGION_INPUT, .dtype = DTYPE_I64, .bytes = BYTES};
static const struct atc_slot output = {.region = REGION_OUTPUT, .dtype = DTYPE_I64, .bytes = BYTES};
static const struct atc_slot inner = {.region = REGION_ARENA, .dtype = DTYPE_I64, .bytes = BYTES};
static const struct atc_slot counter = {
    .region = REGION_ARENA, .dtype = DTYPE_I64, .offset = COUNTER_AT, .bytes = 8};

static struct atc_task add_task(struct atc_slot x, struct atc_slot y)
{
    struct atc_task task = {.family = "add", .n_src = 1, .n_dst = 1, .slots = {x, y}};
    const struct add_params params = {.n = (int64_t)x.bytes / 8, .amount = 1};
    memcpy(task.params, &params, sizeof params);
    return task;
}

/* The part of an operand that a stream has. */
static struct atc_slot part(struct atc_slot slot, uint32_t stream)
{
    slot.bytes = BYTES / STREAMS;
    slot.offset += stream * slot.bytes;
    return slot;
}

/* output = input + 3 + TURNS, by a loop in the arena and streams beside each other. */
static struct atc_plan *load(struct atc_arena_pool *shared)
{
    const int64_t bytes[] = {BYTES};
    const struct atc_limits limits = {.arena_bytes = ARENA_BYTES,
                                      .n_inputs = 1,
                                      .n_outputs = 1,
                                      .input_bytes = bytes,
                                      .output_bytes = bytes};
    struct atc_task loop = {.family = "loop", .n_src = 2, .n_dst = 1, .slots = {{0}, {0}, counter}};
    const struct loop_params params = {.body_tasks = 1, .trip_count = TURNS};
    memcpy(loop.params, &params, sizeof params);
    struct atc_task tasks[TASKS] = {
        add_task(input, inner), loop, add_task(inner, inner), {.family = "stream_active"}};
    const struct stream_active_params section = {.body_tasks = 2 * STREAMS};
    memcpy(tasks[SECTION].params, &section, sizeof section);
    for (uint32_t stream = 0; stream < STREAMS; stream++) {
        struct atc_task *own = tasks + SECTION + 1 + 2 * stream;
        own[0] = add_task(part(inner, stream), part(inner, stream));
        own[1] = add_task(part(inner, stream), part(output, stream));
        own[0].stream = own[1].stream = stream;
    }
    struct atc_refusal refusal = {{0}, 0, false};
    struct atc_plan *plan = atc_plan_load((const uint8_t *)tasks, sizeof tasks, NULL, NULL, &limits,
                                          THREADS, ISA_SCALAR, NULL, &refusal);
    if (plan == NULL || !atc_plan_writes_outputs(plan, bytes, &refusal)) {
        fprintf(stderr, "task %lld: %s\n", (long long)refusal.task, refusal.reason);
        exit(2);
    }
    plan->tasks[SECTION].parallel = true; /* whether it pays or not */
    if (shared != NULL)
        plan->arenas = shared;
    return plan;
}

/* --- the runs -------------------------------------------------------------------------------- */

static atomic_int is_interrupted; /* as a signal would */

static int interrupted(void)
{
    return atomic_load(&is_interrupted);
}

enum way { PLAIN, FAULTY, LATE, INTERRUPTIBLE, WAYS };

/* Whether a trace has each launch of a run, the first ones with their times. */
static bool is_noted(struct atc_trace *trace)
{
    const int64_t launches = atomic_load(&trace->n_events);
    bool is_right = launches == TURNS + 1 + 2 * STREAMS;
    for (int64_t i = 0; i < launches && i < MAX_EVENTS; i++) {
        const struct atc_event *event = trace->events + i;
        is_right = is_right && event->start_ns <= event->end_ns && event->task >= 0 &&
                   event->task < TASKS && event->thread < THREADS;
    }
    for (int64_t i = SECTION + 1; i < TASKS; i++)
        is_right = is_right && trace->totals[i].runs == 1;
    return is_right;
}

/* Runs a plan; true if it is done. Ends the program if the result is wrong. */
static bool run(const struct atc_plan *plan, enum way way, int64_t first)
{
    int64_t x[ELEMENTS], y[ELEMENTS];
    for (int64_t i = 0; i < ELEMENTS; i++)
        x[i] = first + i;
    if (way == FAULTY)
        x[ELEMENTS / 2] = MAX_VALUE;
    struct atc_arena *arena = atc_plan_take_arena(plan);
    if (arena == NULL)
        exit(2);
    uint8_t *bases[] = {NULL, arena->bytes, NULL, (uint8_t *)x, (uint8_t *)y};
    struct atc_task_total totals[TASKS] = {{0}};
    struct atc_event events[MAX_EVENTS];
    struct atc_trace trace = {.totals = totals, .events = events, .max_events = MAX_EVENTS};
    struct atc_run at_work = {.plan = plan,
                              .bases = bases,
                              .scratch = arena->bytes + plan->arena_bytes,
                              .trace = first % 2 == 0 ? &trace : NULL,
                              .stop = {.interrupted = way == INTERRUPTIBLE ? interrupted : NULL,
                                       .deadline_ns = way == LATE ? atc_now_ns() + 1 : 0}};
    const enum atc_run_status status = atc_run_tasks(&at_work, 0, plan->n_tasks);
    atc_arena_give(plan->arenas, arena);
    bool is_right = status == RUN_DONE || (status == RUN_INTERRUPTED && way >= LATE);
    if (way == FAULTY)
        is_right = status == RUN_FAULT && atomic_load(&at_work.fault.code) == FAULT_INDEX_OUTSIDE &&
                   at_work.fault.value == MAX_VALUE + 1;
    for (int64_t i = 0; status == RUN_DONE && i < ELEMENTS; i++)
        is_right = is_right && y[i] == first + i + 3 + TURNS;
    if (!is_right) {
        fprintf(stderr, "a run of way %d ended with %d, or with a wrong result\n", way, status);
        exit(1);
    }
    if (status == RUN_DONE && at_work.trace != NULL && !is_noted(&trace)) {
        fprintf(stderr, "a run noted other launches than there were\n");
        exit(1);
    }
    return status == RUN_DONE;
}

static const struct atc_plan *plans[2]; /* which all callers share */
/* Which children run. Python's lock keeps threads from holding that of an arena pool at a fork. */
static struct atc_plan *inherited;
static struct atc_arena_pool shared_arenas;
static atomic_int done, ended;

static void *call(void *seed)
{
    const int number = *(const int *)seed;
    for (int i = 0; i < RUNS; i++)
        atomic_fetch_add(run(plans[i % 2], (enum way)((i + number) % WAYS), i) ? &done : &ended, 1);
    return NULL;
}

static void *load_and_free(void *unused)
{
    (void)unused;
    for (int i = 0; i < LOADS; i++) {
        struct atc_plan *plan = load(i % 2 ? &shared_arenas : NULL);
        run(plan, PLAIN, i);
        atc_plan_free(plan);
        atomic_store(&is_interrupted, i % 8 == 0);
    }
    return NULL;
}

/* A process that is forked beside running threads runs what its parent loaded. */
static void run_in_child(void)
{
    const pid_t child = fork();
    if (child == 0) {
        run(inherited, PLAIN, 7);
        _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "plans do not run after a fork: status %d\n", status);
        exit(1);
    }
}

/* --- how often a run asks -------------------------------------------------------------------- */

static int answers;

static int answer_slowly(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    nanosleep(&pause, NULL);
    answers++;
    return 0;
}

/* A run that waits for answers spends most of its time at work all the same. */
static void ask_for_a_while(void)
{
    struct atc_stop stop = {.interrupted = answer_slowly, .asked_ns = atc_now_ns()};
    while (answers == 0)
        (void)atc_ask_stop(&stop);
    const int64_t answered_ns = atc_now_ns();
    while (atc_now_ns() - answered_ns < 50000000)
        (void)atc_ask_stop(&stop);
    if (answers != 1) {
        fprintf(stderr, "a run waited for %d answers in 50 ms\n", answers);
        exit(1);
    }
}

int main(void)
{
    ask_for_a_while();
    atc_set_cores(atc_all_workers(), CORES);
    atc_arena_pool_init(&shared_arenas);
    struct atc_plan *const own = load(NULL), *const sharing = load(&shared_arenas);
    plans[0] = own;
    plans[1] = sharing;
    inherited = load(NULL);
    pthread_t threads[CALLERS + LOADERS];
    int seeds[CALLERS];
    for (int i = 0; i < CALLERS + LOADERS; i++) {
        if (i < CALLERS)
            seeds[i] = i;
        void *argument = i < CALLERS ? seeds + i : NULL;
        if (pthread_create(threads + i, NULL, i < CALLERS ? call : load_and_free, argument) != 0)
            exit(2);
    }
    /* A fork beside a thread that starts may leave a lock of the sanitizer's own closed in the
     * child: let all have started.
     */
    while (atomic_load(&done) + atomic_load(&ended) < CALLERS * RUNS / 4)
        sched_yield();
    for (int i = 0; i < FORKS; i++)
        run_in_child();
    for (int i = 0; i < CALLERS + LOADERS; i++)
        pthread_join(threads[i], NULL);
    run_in_child();
    atc_plan_free(own);
    atc_plan_free(inherited);
    atc_plan_free(sharing);
    atc_arena_pool_free(&shared_arenas);
    printf("%d runs of shared plans done, %d ended early, beside %d loads and %d forks\n",
           atomic_load(&done), atomic_load(&ended), LOADERS * LOADS, FORKS + 1);
    return 0;
}
