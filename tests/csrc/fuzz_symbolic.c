/* Fuzz target: any symbolic plan is refused, or gives instances whose tasks stay inside their
 * memory.
 *
 *     fuzz_symbolic [-runs=N] [-seed=S]
 *
 * It makes plans of chains of element-wise tasks that are right, breaks up to four words of each,
 * and instantiates them at sizes small and wild. What loads is small enough to run at once.
 */
#include "core/arena.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/placement.h"
#include "core/program.h"
#include "core/symbolic.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_TASKS = 4,
    MAX_WORDS = 256,
    MAX_BLOCKS = 24,
    MAX_RUN = 1 << 16, /* bytes of an instance that is run */
    MAX_SECONDS = 60,
    MAX_RUN_NS = 50000000, /* an operand may hold any trip count: what goes on is ended */
};

static int64_t loaded, instances, ran;

static void *room(size_t bytes)
{
    uint8_t *at = malloc(bytes + 1);
    if (at == NULL)
        exit(2);
    memset(at, 0x3f, bytes + 1);
    return at;
}

static int64_t a_value(void)
{
    static const int64_t wild[] = {0,
                                   -1,
                                   INT64_MIN,
                                   INT64_MAX,
                                   (INT64_C(1) << 47) - 1,
                                   INT64_C(1) << 47,
                                   INT64_C(1) << 45,
                                   4194305,
                                   1 << 30};
    return fuzz_any(4) == 0 ? wild[fuzz_any(sizeof wild / sizeof wild[0])] : (int64_t)fuzz_any(100);
}

struct blob {
    uint32_t words[MAX_WORDS];
    size_t n;
};

static void word(struct blob *blob, uint32_t value)
{
    blob->words[blob->n++] = value;
}

static void number(struct blob *blob, int64_t value)
{
    word(blob, (uint32_t)value);
    word(blob, (uint32_t)((uint64_t)value >> 32));
}

/* Slots of a plan's values: symbols n and m, constants, results. */
enum { N, M, FOUR, EIGHT, ELEMENTS, BYTES, SPARE, N_SLOTS };

static void make_blob(struct blob *blob, uint32_t tasks)
{
    blob->n = 0;
    const uint32_t blocks = tasks - 1, placements = fuzz_any(2) ? blocks : 0;
    const uint32_t header[] = {ATC_SYMBOLIC_VERSION, 2, 2, 3,    1, 3 * tasks, blocks,
                               placements,           1, 1, tasks};
    for (size_t i = 0; i < sizeof header / sizeof header[0]; i++)
        word(blob, header[i]);
    for (int i = 0; i < 2; i++) {
        number(blob, fuzz_any(8) ? 0 : a_value());
        number(blob, fuzz_any(8) ? INT64_MAX : a_value());
    }
    number(blob, 4);
    number(blob, fuzz_any(8) ? 8 : a_value());
    const uint32_t instrs[3][4] = {
        {PROGRAM_MUL, N, M, 0},
        {PROGRAM_MUL, ELEMENTS, FOUR, 0},
        {(uint32_t)fuzz_any(PROGRAM_OPS), (uint32_t)fuzz_any(SPARE), (uint32_t)fuzz_any(SPARE), 0}};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            word(blob, instrs[i][k]);
    word(blob, fuzz_any(8) ? (uint32_t)FOUR : (uint32_t)fuzz_any(N_SLOTS));
    word(blob, (uint32_t)fuzz_any(2));
    for (uint32_t t = 0; t < tasks; t++) {
        for (int operand = 0; operand < 2; operand++) {
            word(blob, t);
            word(blob, (uint32_t)(offsetof(struct atc_task, slots) +
                                  (size_t)operand * sizeof(struct atc_slot) +
                                  offsetof(struct atc_slot, bytes)));
            word(blob, BYTES);
            word(blob, PATCH_I64);
        }
        word(blob, t);
        word(blob, offsetof(struct atc_task, params));
        word(blob, ELEMENTS);
        word(blob, PATCH_I64);
    }
    for (uint32_t t = 0; t + 1 < tasks; t++) {
        word(blob, BYTES);
        word(blob, t);
        word(blob, t + 1);
    }
    for (uint32_t block = 0; block < placements; block++) {
        number(blob, fuzz_any(8) ? block % 2 * 4096 : a_value());
        number(blob, fuzz_any(8) ? 4096 : a_value());
    }
    word(blob, BYTES);
    word(blob, BYTES);
    word(blob, 2);
    word(blob, N);
    word(blob, M);
}

static void make_records(struct atc_task *records, uint32_t tasks)
{
    memset(records, 0, sizeof *records * tasks);
    for (uint32_t t = 0; t < tasks; t++) {
        struct atc_task *task = records + t;
        memcpy(task->family, "unary", 5);
        task->n_src = 1;
        task->n_dst = 1;
        task->slots[0] = (struct atc_slot){.region = t == 0 ? REGION_INPUT : REGION_ARENA,
                                           .dtype = DTYPE_F32,
                                           .index = (uint16_t)(t == 0 ? 0 : t - 1)};
        task->slots[1] = (struct atc_slot){.region = t + 1 == tasks ? REGION_OUTPUT : REGION_ARENA,
                                           .dtype = DTYPE_F32,
                                           .index = (uint16_t)(t + 1 == tasks ? 0 : t)};
    }
}

static void run(struct atc_plan *plan, const struct atc_instance *instance, int64_t n_ports)
{
    int64_t bytes = plan->arena_bytes;
    for (int64_t i = 0; i < n_ports; i++)
        bytes = atc_add(bytes, instance->port_bytes[i]);
    for (int64_t i = 0; i < plan->n_tasks; i++)
        if (plan->tasks[i].fn == NULL)
            return;
    if (bytes > MAX_RUN)
        return;
    plan->arenas = &plan->own_arenas; /* those of all instances may be larger than this one's */
    struct atc_arena *arena = atc_plan_take_arena(plan);
    uint8_t **bases = calloc((size_t)(BASE_PORTS + n_ports), sizeof *bases);
    if (arena == NULL || bases == NULL)
        exit(2);
    memset(arena->bytes, 0x3f, (size_t)plan->arena_bytes);
    bases[BASE_ARENA] = arena->bytes;
    for (int64_t i = 0; i < n_ports; i++)
        bases[BASE_PORTS + i] = room((size_t)instance->port_bytes[i]);
    struct atc_run at_work = {.plan = plan,
                              .bases = bases,
                              .scratch = arena->bytes + plan->arena_bytes,
                              .stop = {.deadline_ns = atc_now_ns() + MAX_RUN_NS}};
    atc_run_tasks(&at_work, 0, plan->n_tasks);
    for (int64_t i = 0; i < n_ports; i++)
        free(bases[BASE_PORTS + i]);
    free(bases);
    atc_arena_give(plan->arenas, arena);
    ran++;
}

static void instantiate(struct atc_symbolic *symbolic)
{
    const struct atc_symbolic_sizes sizes = atc_symbolic_sizes(symbolic);
    const int64_t n_ports = sizes.n_inputs + sizes.n_outputs;
    int64_t *symbols = calloc((size_t)sizes.n_symbols + 1, sizeof *symbols);
    struct atc_instance instance = {
        .port_bytes = calloc((size_t)n_ports + 1, sizeof(int64_t)),
        .dims = calloc((size_t)sizes.n_dims + 1, sizeof(int64_t)),
    };
    if (symbols == NULL || instance.port_bytes == NULL || instance.dims == NULL)
        exit(2);
    for (int64_t i = 0; i < sizes.n_symbols; i++)
        symbols[i] = a_value();
    struct atc_refusal refusal = {{0}, 0, false};
    if (atc_symbolic_instantiate(symbolic, symbols, &instance, &refusal) == INSTANCE_LOADED) {
        instances++;
        run(instance.plan, &instance, n_ports);
        atc_plan_free(instance.plan);
    }
    free(symbols);
    free(instance.port_bytes);
    free(instance.dims);
}

static void try_plan(void)
{
    struct blob blob;
    struct atc_task records[MAX_TASKS];
    const uint32_t tasks = 1 + (uint32_t)fuzz_any(MAX_TASKS);
    make_blob(&blob, tasks);
    make_records(records, tasks);
    for (uint64_t changes = fuzz_any(5); changes > 0; changes--) {
        uint32_t *changed = blob.words + fuzz_any(blob.n);
        *changed = fuzz_any(4) ? (uint32_t)fuzz_any(12) : (uint32_t)fuzz_any(UINT32_MAX);
    }
    if (fuzz_any(4) == 0)
        ((uint8_t *)records)[fuzz_any(sizeof *records * tasks)] = (uint8_t)fuzz_any(256);
    /* Copies of the exact size: the sanitizer sees the first byte beyond. */
    const size_t size = fuzz_any(32) ? 4 * blob.n : fuzz_any(4 * blob.n),
                 bytes = sizeof *records * tasks;
    uint8_t *exact = room(size - (size > 0)), *exact_records = room(bytes - 1);
    memcpy(exact, blob.words, size);
    memcpy(exact_records, records, bytes);
    struct atc_refusal refusal = {{0}, 0, false};
    struct atc_symbolic *symbolic = atc_symbolic_load(
        exact, size, exact_records, bytes, NULL, 0, 1,
        (enum atc_isa)fuzz_any((uint64_t)atc_this_cpu()->isa + 1), NULL, &refusal);
    free(exact);
    free(exact_records);
    if (symbolic == NULL) {
        if (!refusal.reason[0])
            abort(); /* a refusal gives its reason */
        return;
    }
    loaded++;
    for (int i = 0; i < 4; i++)
        instantiate(symbolic);
    atc_symbolic_free(symbolic);
}

static bool overlap(const struct atc_lifetime *a, const struct atc_placement *at,
                    const struct atc_lifetime *b, const struct atc_placement *other)
{
    return a->first <= b->last && b->first <= a->last && at->max_bytes > 0 &&
           other->max_bytes > 0 && at->offset < other->offset + other->max_bytes &&
           other->offset < at->offset + at->max_bytes;
}

/* Claimed placements are accepted exactly if no two blocks overlap, each compared with each. */
static void try_claims(const struct atc_lifetime *lifetimes, const int64_t *sizes,
                       const int64_t *offsets, int64_t n)
{
    struct atc_placement claims[MAX_BLOCKS + 1];
    for (int64_t i = 0; i < n; i++)
        claims[i] = (struct atc_placement){offsets[i], sizes[i]};
    if (n > 0 && fuzz_any(2)) {
        struct atc_placement *changed = claims + fuzz_any((uint64_t)n);
        changed->offset = 64 * (int64_t)fuzz_any(1 << 14);
        changed->max_bytes = (int64_t)fuzz_any(1 << 20);
    }
    bool apart = true;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            apart = apart && !overlap(lifetimes + i, claims + i, lifetimes + j, claims + j);
    struct atc_refusal refusal = {{0}, 0, false};
    if (apart != (atc_placements_check(claims, lifetimes, n, MAX_BLOCKS, &refusal) >= 0))
        abort();
}

/* Blocks that live at the same time do not overlap, and lie inside the arena. */
static void try_placement(void)
{
    struct atc_lifetime lifetimes[MAX_BLOCKS];
    int64_t sizes[MAX_BLOCKS], offsets[MAX_BLOCKS];
    const int64_t n = (int64_t)fuzz_any(MAX_BLOCKS + 1);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t first = (uint32_t)fuzz_any(MAX_BLOCKS);
        lifetimes[i] = (struct atc_lifetime){first, first + (uint32_t)fuzz_any(MAX_BLOCKS - first)};
        sizes[i] = (int64_t)fuzz_any(fuzz_any(2) ? 300 : 1 << 20);
    }
    struct atc_refusal refusal = {{0}, 0, false};
    struct atc_blocks *blocks = atc_blocks_new(lifetimes, n, MAX_BLOCKS, &refusal);
    if (blocks == NULL)
        abort();
    const int64_t arena = atc_blocks_place(blocks, sizes, offsets);
    for (int64_t i = 0; i < n; i++) {
        if (offsets[i] < 0 || offsets[i] % 64 != 0 || offsets[i] + sizes[i] > arena)
            abort();
        for (int64_t j = 0; j < i; j++)
            if (lifetimes[i].first <= lifetimes[j].last &&
                lifetimes[j].first <= lifetimes[i].last && offsets[i] < offsets[j] + sizes[j] &&
                offsets[j] < offsets[i] + sizes[i])
                abort();
    }
    atc_blocks_free(blocks);
    try_claims(lifetimes, sizes, offsets, n);
}

int main(int argc, char **argv)
{
    int64_t runs = 100000;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0)
            runs = atoll(argv[i] + 6);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            fuzz_seed(strtoull(argv[i] + 6, NULL, 10));
    }
    for (int64_t i = 0; i < runs; i++) {
        alarm(MAX_SECONDS);
        try_plan();
        try_placement();
    }
    printf("%lld symbolic plans: %lld loaded, %lld instances, %lld run; 0 findings\n",
           (long long)runs, (long long)loaded, (long long)instances, (long long)ran);
    return 0;
}
