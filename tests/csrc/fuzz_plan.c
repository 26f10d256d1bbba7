/* Fuzz target: any task records are refused, or run inside their memory.
 *
 *     fuzz_plan [-runs=N] [-seed=S] [-keep=FILE] [-records=FILE] | fuzz_plan FILE...
 *
 * LLVMFuzzerTestOneInput fits libFuzzer. Where only gcc is there, main() is a loop of its own: it
 * makes records of each kernel family, changes them, and keeps those that reach new edges, which
 * -fsanitize-coverage=trace-pc counts. The input at work lies in FILE, so that it outlives a crash.
 * With -records it also starts from the records of real models (seed_records.py), whose operands
 * get an arena of just the size that they reach into.
 */
#include "core/clock.h"
#include "core/control.h"
#include "core/cpu.h"
#include "core/plan.h"

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
    EDGES = 1 << 16,
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
            atc_add(task->items, task->row->family->cost(task->params, atc_this_cpu()).work);
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const int64_t port_bytes[] = {PORT, PORT};
    const struct atc_limits limits = {
        arena_for(bytes, size), WEIGHTS, 2, 2, port_bytes, port_bytes};
    alarm(MAX_SECONDS);
    uint8_t *weights = block(WEIGHTS);
    uint8_t *records = malloc(size + 1);
    if (records == NULL)
        exit(2);
    memcpy(records, bytes, size);
    for (int isa = ISA_SCALAR; isa <= (int)atc_this_cpu()->isa; isa++) {
        struct atc_refusal refusal = {{0}, 0, false};
        struct atc_plan *plan = atc_plan_load(records, size, weights, NULL, &limits, 1,
                                              (enum atc_isa)isa, NULL, &refusal);
        if (plan == NULL) {
            if (memchr(refusal.reason, 0, sizeof refusal.reason) == NULL || !refusal.reason[0])
                abort(); /* a refusal gives its reason */
            continue;
        }
        accepted++;
        if (small(plan))
            run(plan, weights);
        atc_plan_free(plan);
    }
    free(records);
    free(weights);
    return 0;
}

#ifndef USE_LIBFUZZER

static uint8_t hit[EDGES];
static int64_t edges, fresh;

void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"))) void
__sanitizer_cov_trace_pc(void)
{
    static uintptr_t before;
    const uintptr_t here = (uintptr_t)__builtin_return_address(0);
    const uintptr_t edge = ((here >> 2) ^ (before << 1) ^ (here >> 17)) % EDGES;
    before = here >> 2;
    if (!hit[edge]) {
        hit[edge] = 1;
        edges++;
        fresh++;
    }
}

static uint64_t state = 1;

static uint64_t any(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* Sizes as models have them, and those that overflow: 4194305 · 4194305 · 211106198978564 wraps. */
static int64_t a_size(void)
{
    static const int64_t odd[] = {
        0,         -1,      INT64_MIN,      INT64_MAX, 1LL << 31, 1 << 16, (1LL << 31) - 1,
        1LL << 47, 4194305, 211106198978564};
    return any(8) == 0 ? odd[any(sizeof odd / sizeof odd[0])] : (int64_t)any(any(4) == 0 ? 65 : 9);
}

static void fill_slot(struct atc_slot *slot, bool is_dst)
{
    static const uint8_t dtypes[] = {DTYPE_F32,  DTYPE_F32, DTYPE_F32, DTYPE_I64, DTYPE_I32,
                                     DTYPE_BOOL, DTYPE_U8,  DTYPE_I8,  DTYPE_F16, DTYPE_F64};
    memset(slot, 0, sizeof *slot);
    slot->region = (uint8_t)(is_dst ? (any(4) ? REGION_ARENA : REGION_OUTPUT) : 1 + any(3));
    slot->dtype = dtypes[any(any(2) ? 3 : sizeof dtypes)];
    const uint64_t room = slot->region == REGION_ARENA     ? ARENA
                          : slot->region == REGION_WEIGHTS ? WEIGHTS
                                                           : PORT;
    slot->offset = any(2) ? 0 : 4 * any(room / 4 + 1);
    slot->bytes = any(16) ? room - slot->offset : 4 * any(room / 2);
    if (slot->region == REGION_INPUT || slot->region == REGION_OUTPUT)
        slot->index = (uint16_t)any(2);
}

/* Few different values in one record: sizes that belong together are then often equal. */
static void fill_params(struct atc_task *task, const struct kernel_family *family)
{
    const int64_t palette[] = {1, 1, any(2) ? 0 : 1, any(4) ? 1 + (int64_t)any(9) : a_size()};
    size_t at = 0;
    for (const struct param_field *field = family->fields; field->name; field++) {
        for (int i = 0; i < field->count && at + 8 <= ATC_PARAM_BYTES; i++, at += 8) {
            const int64_t whole = any(16) ? palette[any(4)] : a_size();
            const double real = (double)whole / 4;
            memcpy(task->params + at, field->is_float ? (const void *)&real : (const void *)&whole,
                   8);
        }
    }
}

static struct atc_task *real_records;
static size_t n_real_records;

static void make_task(struct atc_task *task)
{
    if (n_real_records > 0 && any(2)) {
        *task = real_records[any(n_real_records)];
        return;
    }
    memset(task, 0, sizeof *task);
    const struct kernel_family *family = kernel_table[any((uint64_t)kernel_table_rows)].family;
    memcpy(task->family, family->name, strlen(family->name));
    task->n_src = (uint8_t)(1 + any(4));
    task->n_dst = (uint8_t)(any(8) ? 1 : any(3));
    for (int i = 0; i < task->n_src + task->n_dst; i++)
        fill_slot(task->slots + i, i >= task->n_src);
    fill_params(task, family);
}

/* Moves an argument to a value near it, or to that of another: what a checker's comparisons are
 * about. */
static void nudge(struct atc_task *task)
{
    const size_t place = any(ATC_PARAM_BYTES / 8), other = any(ATC_PARAM_BYTES / 8);
    int64_t value, neighbour;
    memcpy(&value, task->params + 8 * place, 8);
    memcpy(&neighbour, task->params + 8 * other, 8);
    if (value > INT32_MAX || value < INT32_MIN)
        return;
    const int64_t near[] = {value + 1, value - 1, value * 2, value / 2, -value, neighbour};
    value = near[any(sizeof near / sizeof near[0])];
    memcpy(task->params + 8 * place, &value, 8);
}

/* One change: a field of the record by its meaning, or any bytes. */
static void change(uint8_t *bytes, size_t size)
{
    struct atc_task task;
    const size_t number = any(size / ATC_TASK_BYTES);
    memcpy(&task, bytes + number * ATC_TASK_BYTES, sizeof task);
    const struct kernel_family *family = NULL;
    switch (any(9)) {
    case 0:
        make_task(&task);
        break;
    case 1:
    case 2:
        fill_slot(task.slots + any(ATC_MAX_SLOTS), any(2));
        break;
    case 3:
        task.n_src = (uint8_t)any(any(2) ? 5 : 256);
        break;
    case 4:
        task.slots[any(ATC_MAX_SLOTS)].bytes = (uint64_t)a_size() * 4;
        break;
    case 5:
        bytes[any(size)] = (uint8_t)any(256);
        return;
    case 6:
        nudge(&task);
        break;
    default:
        if (memchr(task.family, 0, sizeof task.family) != NULL) {
            const struct kernel_row *rows = atc_find_rows(task.family);
            family = rows == NULL ? NULL : rows->family;
        }
        if (family == NULL || family->fields[0].name == NULL)
            return;
        const int64_t value = a_size();
        size_t used = 0;
        for (const struct param_field *field = family->fields; field->name; field++)
            used += (size_t)field->count;
        memcpy(task.params + 8 * any(any(64) ? used : ATC_PARAM_BYTES / 8), &value, 8);
    }
    memcpy(bytes + number * ATC_TASK_BYTES, &task, sizeof task);
}

struct input {
    size_t size;
    uint8_t *bytes;
};

static void keep(struct input *corpus, int64_t *count, const uint8_t *bytes, size_t size)
{
    struct input *place = corpus + (*count < MAX_CORPUS ? (*count)++ : (int64_t)any(MAX_CORPUS));
    free(place->bytes);
    place->bytes = malloc(size);
    place->size = size;
    if (place->bytes == NULL)
        exit(2);
    memcpy(place->bytes, bytes, size);
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
        size_t size = (1 + any(MAX_TASKS)) * ATC_TASK_BYTES;
        if (count > 0 && any(8) != 0) {
            const struct input *old = corpus + any((uint64_t)count);
            size = old->size;
            memcpy(bytes, old->bytes, size);
            for (uint64_t changes = 1 + any(4); changes > 0; changes--)
                change(bytes, size);
        } else {
            for (size_t at = 0; at < size; at += ATC_TASK_BYTES) {
                struct atc_task task;
                make_task(&task);
                memcpy(bytes + at, &task, sizeof task);
            }
        }
        fresh = 0;
        LLVMFuzzerTestOneInput(bytes, any(64) ? size : any(size));
        if (fresh > 0)
            keep(corpus, &count, bytes, size);
    }
    printf("%lld inputs: %lld plans accepted, %lld run; %lld edges, %lld inputs kept; 0 findings\n",
           (long long)runs, (long long)accepted, (long long)ran, (long long)edges,
           (long long)count);
    for (int64_t i = 0; i < count; i++)
        free(corpus[i].bytes);
    munmap(bytes, MAX_BYTES);
}

static void read_records(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    const long size = ftell(file);
    rewind(file);
    n_real_records = size > 0 ? (size_t)size / ATC_TASK_BYTES : 0;
    real_records = calloc(n_real_records + 1, sizeof *real_records);
    if (real_records == NULL ||
        fread(real_records, ATC_TASK_BYTES, n_real_records, file) != n_real_records)
        exit(2);
    fclose(file);
    int64_t taken = 0;
    for (size_t i = 0; i < n_real_records; i++) {
        const int64_t before = accepted;
        LLVMFuzzerTestOneInput((const uint8_t *)(real_records + i), ATC_TASK_BYTES);
        taken += accepted > before;
    }
    printf("%zu records of real models, %lld accepted\n", n_real_records, (long long)taken);
    if (taken * 2 < (int64_t)n_real_records)
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
            state = strtoull(argv[i] + 6, NULL, 10) * 2 + 1;
        else if (strncmp(argv[i], "-keep=", 6) == 0)
            path = argv[i] + 6;
        else if (strncmp(argv[i], "-records=", 9) == 0)
            read_records(argv[i] + 9);
        else {
            replay(argv[i]);
            files = true;
        }
    }
    if (!files)
        loop(runs, path);
    free(real_records);
    return 0;
}

#endif
