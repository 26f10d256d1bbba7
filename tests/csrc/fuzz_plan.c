/* Fuzz target: any list of task records is refused, or runs inside its arena.
 *
 *     fuzz_plan [-runs=N] [-seed=S] [-keep=FILE] -records=FILE | fuzz_plan FILE...
 *
 * LLVMFuzzerTestOneInput fits libFuzzer. Where only gcc is there, main() is a loop of its own: it
 * puts the records of launches (seed_records.py) behind each other, changes their headers, operands
 * and control flow, and keeps those that reach new edges, which -fsanitize-coverage=trace-pc
 * counts. What arguments may do is the subject of fuzz_kernels. The input at work lies in FILE, so
 * that it outlives a crash. Operands get an arena of just the size that they reach into.
 *
 * Each launch is loaded as well while one allocation fails, whichever of them, and for each row of
 * its family by name.
 */
#include "core/clock.h"
#include "core/control.h"
#include "core/cpu.h"
#include "core/plan.h"
#include "fuzz.h"
#include "fuzz_allocation.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ARENA = 1 << 13, /* small: an overrun is then a likely thing */
    WEIGHTS = 1 << 9,
    PORT = 1 << 8,
    MAX_TASKS = 4,
    MAX_BYTES = MAX_TASKS * ATC_TASK_BYTES,
    MAX_CORPUS = 4096,
    MAX_WORK = 1 << 20,
    MAX_ARENA = 1 << 18,
    MAX_SECONDS =
        60, /* for work that the families call small, sanitizers and a busy machine included */
    MAX_RUN_NS = 50000000, /* an operand may hold any trip count: what goes on is ended */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static int64_t accepted, ran;

/* Buffers of their exact size: the sanitizer sees the first byte beyond. */
static uint8_t *block(size_t size)
{
    uint8_t *at = NULL;
    if (posix_memalign((void **)&at, 64, size) != 0)
        exit(2);
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(i * 37 + 11);
    return at;
}

/* How often the tasks behind a record run, at least once; an operand may hold any trip count. */
static int64_t iterations(const struct atc_bound_task *task)
{
    if (task->control != CONTROL_LOOP)
        return 1;
    const int64_t trip_count = ((const struct loop_params *)task->params)->trip_count;
    const bool is_counted = task->operands[0].base == BASE_NONE && trip_count >= 0;
    return !is_counted ? ATC_MAX_ITERATIONS : trip_count > 1 ? trip_count : 1;
}

static bool small(const struct atc_plan *plan)
{
    int64_t work = 0, times = 1;
    for (int64_t i = 0; i < plan->n_tasks; i++) {
        const struct atc_bound_task *task = plan->tasks + i;
        if (task->fn == NULL)
            return false;
        const int64_t own =
            atc_add(task->items, task->row->family->cost(task->params, &plan->cpu).work);
        work = atc_add(work, atc_mul(times, atc_add(own, 1)));
        times = atc_mul(times, iterations(task));
    }
    return work <= MAX_WORK && plan->scratch_bytes <= MAX_WORK;
}

static void run(struct atc_plan *plan, uint8_t *weights)
{
    struct atc_arena *arena = atc_plan_take_arena(plan);
    if (arena == NULL)
        return;
    memset(arena->bytes, 0x3f, (size_t)plan->arena_bytes);
    uint8_t *ports[4];
    for (int i = 0; i < 4; i++)
        ports[i] = block(PORT);
    uint8_t *bases[] = {NULL, arena->bytes, weights, ports[0], ports[1], ports[2], ports[3]};
    struct atc_run at_work = {.plan = plan,
                              .bases = bases,
                              .scratch = arena->bytes + plan->arena_bytes,
                              .stop = {.deadline_ns = atc_now_ns() + MAX_RUN_NS}};
    atc_run_tasks(&at_work, 0, plan->n_tasks);
    for (int i = 0; i < 4; i++)
        free(ports[i]);
    atc_arena_give(plan->arenas, arena);
    ran++;
}

/* As much arena as the records reach into, within bounds. */
static int64_t arena_for(const uint8_t *bytes, size_t size)
{
    uint64_t most = ARENA;
    struct atc_task task;
    for (size_t at = 0; at + sizeof task <= size; at += sizeof task) {
        memcpy(&task, bytes + at, sizeof task);
        for (int i = 0; i < ATC_MAX_SLOTS; i++) {
            const struct atc_slot *slot = task.slots + i;
            if (slot->region != REGION_ARENA || slot->offset > MAX_ARENA ||
                slot->bytes > MAX_ARENA - slot->offset)
                continue;
            if (slot->offset + slot->bytes > most)
                most = slot->offset + slot->bytes;
        }
    }
    return (int64_t)most;
}

static const int64_t port_bytes[] = {PORT, PORT};

static struct atc_limits limits_for(const uint8_t *bytes, size_t size)
{
    return (struct atc_limits){arena_for(bytes, size), WEIGHTS, 2, 2, port_bytes, port_bytes};
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const struct atc_limits limits = limits_for(bytes, size);
    alarm(MAX_SECONDS);
    uint8_t *weights = block(WEIGHTS);
    uint8_t *records = malloc(size + 1);
    if (records == NULL)
        exit(2);
    memcpy(records, bytes, size);
    for (int isa = ISA_SCALAR; isa < ISA_COUNT; isa++) {
        if (!atc_has_isa((enum atc_isa)isa))
            continue;
        struct atc_refusal refusal = {{0}, 0, false};
        struct atc_plan *plan = atc_plan_load(records, size, weights, NULL, &limits, 2,
                                              (enum atc_isa)isa, NULL, &refusal);
        if (plan == NULL) {
            if (memchr(refusal.reason, 0, sizeof refusal.reason) == NULL || !refusal.reason[0])
                abort(); /* a refusal gives its reason */
            continue;
        }
        accepted++;
        for (int64_t i = 0; i < plan->n_tasks; i++) /* streams run beside each other, pay or not */
            if (plan->tasks[i].control == CONTROL_STREAMS)
                plan->tasks[i].parallel = true;
        atc_plan_writes_outputs(plan, port_bytes, &refusal);
        if (small(plan))
            run(plan, weights);
        atc_plan_free(plan);
    }
    free(records);
    free(weights);
    return 0;
}

#ifndef USE_LIBFUZZER

static struct fuzz_launch *seeds;
static size_t n_seeds;

/* Numbers of tasks and iterations, and those that overflow. */
static int64_t a_size(void)
{
    static const int64_t odd[] = {-1,      INT64_MIN,       INT64_MAX, 1LL << 31,
                                  1 << 16, (1LL << 31) - 1, 1LL << 47, 4194305};
    return fuzz_any(8) == 0 ? odd[fuzz_any(sizeof odd / sizeof odd[0])] : (int64_t)fuzz_any(9);
}

static void fill_slot(struct atc_slot *slot, bool is_dst)
{
    static const uint8_t dtypes[] = {DTYPE_F32,  DTYPE_F32, DTYPE_F32, DTYPE_I64, DTYPE_I32,
                                     DTYPE_BOOL, DTYPE_U8,  DTYPE_I8,  DTYPE_F16, DTYPE_F64};
    memset(slot, 0, sizeof *slot);
    slot->region =
        (uint8_t)(is_dst ? (fuzz_any(4) ? REGION_ARENA : REGION_OUTPUT) : 1 + fuzz_any(3));
    slot->dtype = dtypes[fuzz_any(fuzz_any(2) ? 3 : sizeof dtypes)];
    const uint64_t room = slot->region == REGION_ARENA     ? ARENA
                          : slot->region == REGION_WEIGHTS ? WEIGHTS
                                                           : PORT;
    slot->offset = fuzz_any(2) ? 0 : 4 * fuzz_any(room / 4 + 1);
    slot->bytes = fuzz_any(16) ? room - slot->offset : 4 * fuzz_any(room / 2);
    if (slot->region == REGION_INPUT || slot->region == REGION_OUTPUT)
        slot->index = (uint16_t)fuzz_any(2);
}

static struct atc_task a_task(void)
{
    static const char *const control[] = {"if", "loop", "stream_active"};
    for (int tries = 0; fuzz_any(3) == 0 && tries < 64; tries++) { /* few seeds are control flow */
        const struct fuzz_launch *seed = seeds + fuzz_any(n_seeds);
        if (strcmp(seed->task.family, control[fuzz_any(3)]) == 0)
            return seed->task;
    }
    return seeds[fuzz_any(n_seeds)].task;
}

/* A task of the host, beside the others or not. */
static struct atc_task a_collective(void)
{
    struct atc_task task = {.family = "host", .n_src = 1, .n_dst = 1};
    fill_slot(task.slots, false);
    fill_slot(task.slots + 1, true);
    task.stream = (uint32_t)fuzz_any(3);
    task.event_record = (uint32_t)fuzz_any(3);
    return task;
}

/* One change: a field of the record by its meaning, or any byte. */
static void change(uint8_t *bytes, size_t size)
{
    struct atc_task task;
    const size_t number = fuzz_any(size / ATC_TASK_BYTES);
    memcpy(&task, bytes + number * ATC_TASK_BYTES, sizeof task);
    const int64_t value = a_size();
    switch (fuzz_any(8)) {
    case 0:
        task = a_task();
        break;
    case 1:
    case 2:
        fill_slot(task.slots + fuzz_any(ATC_MAX_SLOTS), fuzz_any(2));
        break;
    case 3:
        if (fuzz_any(8) == 0)
            memset(task.family, 'a', sizeof task.family); /* its end is missing */
        else if (fuzz_any(4) == 0)
            task = a_collective();
        else
            task.n_src = (uint8_t)fuzz_any(fuzz_any(2) ? 5 : 256);
        break;
    case 4:
        task.slots[fuzz_any(ATC_MAX_SLOTS)].bytes = (uint64_t)value * 4;
        break;
    case 5:
        task.event_wait = (uint32_t)fuzz_any(3);
        task.event_record = (uint32_t)fuzz_any(3);
        task.stream = (uint32_t)fuzz_any(3);
        break;
    case 6: /* of control flow: how many tasks, how often */
        memcpy(task.params + 8 * fuzz_any(2), &value, sizeof value);
        break;
    default:
        bytes[fuzz_any(size)] = (uint8_t)fuzz_any(256);
        return;
    }
    memcpy(bytes + number * ATC_TASK_BYTES, &task, sizeof task);
}

struct input {
    size_t size;
    uint8_t *bytes;
};

static void keep(struct input *corpus, int64_t *count, const uint8_t *bytes, size_t size)
{
    struct input *to = corpus + (*count < MAX_CORPUS ? (*count)++ : (int64_t)fuzz_any(MAX_CORPUS));
    free(to->bytes);
    to->bytes = malloc(size);
    to->size = size;
    if (to->bytes == NULL)
        exit(2);
    memcpy(to->bytes, bytes, size);
}

static uint8_t *mapped(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    void *at = MAP_FAILED;
    if (file >= 0 && ftruncate(file, MAX_BYTES) == 0)
        at = mmap(NULL, MAX_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(file);
    return at;
}

static void loop(int64_t runs, const char *path)
{
    static struct input corpus[MAX_CORPUS];
    int64_t count = 0;
    uint8_t *bytes = mapped(path);
    for (int64_t i = 0; i < runs; i++) {
        size_t size = (1 + fuzz_any(MAX_TASKS)) * ATC_TASK_BYTES;
        if (count > 0 && fuzz_any(8) != 0) {
            const struct input *old = corpus + fuzz_any((uint64_t)count);
            size = old->size;
            memcpy(bytes, old->bytes, size);
            for (uint64_t changes = 1 + fuzz_any(4); changes > 0; changes--)
                change(bytes, size);
        } else {
            for (size_t at = 0; at < size; at += ATC_TASK_BYTES) {
                const struct atc_task task = a_task();
                memcpy(bytes + at, &task, sizeof task);
            }
        }
        LLVMFuzzerTestOneInput(bytes, fuzz_any(64) ? size : fuzz_any(size));
        if (fuzz_found_edges())
            keep(corpus, &count, bytes, size);
    }
    printf("%lld inputs: %lld plans accepted, %lld run; %lld edges, %lld inputs kept; 0 findings\n",
           (long long)runs, (long long)accepted, (long long)ran, (long long)fuzz_edges,
           (long long)count);
    for (int64_t i = 0; i < count; i++)
        free(corpus[i].bytes);
    munmap(bytes, MAX_BYTES);
}

static struct atc_plan *load_seed(const struct atc_task *task, const char *only,
                                  struct atc_refusal *refusal)
{
    static const uint8_t weights[WEIGHTS];
    const uint8_t *bytes = (const uint8_t *)task;
    const struct atc_limits limits = limits_for(bytes, sizeof *task);
    return atc_plan_load(bytes, sizeof *task, weights, NULL, &limits, 1, atc_this_cpu()->isa, only,
                         refusal);
}

/* A plan is loaded and checked, or an allocation has failed and the refusal says so. */
static void try_allocations(const struct atc_task *task)
{
    bool has_failed = true;
    for (int64_t number = 1; has_failed; number++) {
        struct atc_refusal refusal = {{0}, 0, false};
        fuzz_fail_allocation(number);
        struct atc_plan *plan = load_seed(task, NULL, &refusal);
        const bool is_loaded = plan != NULL && atc_plan_writes_outputs(plan, port_bytes, &refusal);
        has_failed = fuzz_allocation_failed();
        fuzz_fail_allocation(0);
        if (refusal.out_of_memory != has_failed || (has_failed && is_loaded))
            abort();
        if (plan != NULL)
            atc_plan_free(plan);
    }
}

/* A row that is asked for by name is the one that is bound, or the launch is refused. */
static void try_names(const struct atc_task *task)
{
    const struct kernel_row *end = kernel_table + kernel_table_rows;
    for (const struct kernel_row *row = kernel_table; row < end; row++) {
        struct atc_refusal refusal = {{0}, 0, false};
        if (row > kernel_table && strcmp(row->family->name, task->family) != 0)
            continue;
        struct atc_plan *plan = load_seed(task, row->symbol, &refusal);
        if (plan == NULL)
            continue;
        if (plan->tasks[0].row != row)
            abort();
        atc_plan_free(plan);
    }
}

/* Sizes that no plan has. */
static void try_limits(void)
{
    static const struct {
        size_t bytes;
        int64_t arena_bytes;
        int threads;
        bool is_loaded;
    } tries[] = {{0, 0, 1, true},  {1, 0, 1, false},           {0, -1, 1, false},
                 {0, 0, 0, false}, {0, ATC_TOO_BIG, 1, false}, {0, ATC_TOO_BIG - 1, 1, true}};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        const uint8_t record[1] = {0};
        const struct atc_limits limits = {.arena_bytes = tries[i].arena_bytes};
        struct atc_refusal refusal = {{0}, 0, false};
        struct atc_plan *plan = atc_plan_load(record, tries[i].bytes, NULL, NULL, &limits,
                                              tries[i].threads, ISA_SCALAR, NULL, &refusal);
        if ((plan != NULL) != tries[i].is_loaded || (plan == NULL && !refusal.reason[0]))
            abort();
        if (plan != NULL)
            atc_plan_free(plan);
    }
}

static void read_seeds(const char *path)
{
    try_limits();
    seeds = fuzz_read(path, &n_seeds);
    int64_t taken = 0;
    for (size_t i = 0; i < n_seeds; i++) {
        const int64_t before = accepted;
        LLVMFuzzerTestOneInput((const uint8_t *)&seeds[i].task, ATC_TASK_BYTES);
        taken += accepted > before;
        try_allocations(&seeds[i].task);
        try_names(&seeds[i].task);
    }
    const struct atc_task collective = {
        .family = "host", .n_dst = 1, .stream = 1, .slots = {{.region = REGION_ARENA, .bytes = 8}}};
    try_allocations(&collective);
    printf("%zu launches, %lld accepted\n", n_seeds, (long long)taken);
    if (n_seeds == 0 || taken * 2 < (int64_t)n_seeds)
        exit(3); /* the seeds do not fit this driver any more */
}

static void replay(const char *path)
{
    static uint8_t bytes[MAX_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, size);
    printf("%s: no finding\n", path);
}

int main(int argc, char **argv)
{
    int64_t runs = 100000;
    const char *path = "fuzz_input.bin";
    bool files = false;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0)
            runs = atoll(argv[i] + 6);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            fuzz_seed(strtoull(argv[i] + 6, NULL, 10));
        else if (strncmp(argv[i], "-keep=", 6) == 0)
            path = argv[i] + 6;
        else if (strncmp(argv[i], "-records=", 9) == 0)
            read_seeds(argv[i] + 9);
        else {
            replay(argv[i]);
            files = true;
        }
    }
    if (!files && seeds == NULL) {
        fputs("fuzz_plan needs -records=FILE\n", stderr);
        return 2;
    }
    if (!files)
        loop(runs, path);
    free(seeds);
    return 0;
}

#endif
