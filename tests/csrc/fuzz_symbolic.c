/* Fuzz target: any symbolic plan is refused, or gives instances whose tasks stay inside their
 * memory.
 *
 *     fuzz_symbolic [-runs=N] [-seed=S]
 *
 * It makes plans of chains of element-wise tasks that are right, breaks up to four words of each,
 * and instantiates them at sizes small and wild. What loads is small enough to run at once. Some
 * are loaded as well while one allocation fails, whichever of them. Checked arithmetic is compared
 * with that of wider numbers.
 */
#include "core/arena.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/placement.h"
#include "core/program.h"
#include "core/symbolic.h"
#include "elementwise/unary.h"
#include "fuzz.h"
#include "fuzz_allocation.h"

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
    uint8_t *at = malloc(bytes);
    if (at == NULL)
        exit(2);
    memset(at, 0x3f, bytes);
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
    const uint32_t header[] = {ATC_SYMBOLIC_VERSION, 2, 2, 3,    1, 4 * tasks, blocks,
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
        word(blob, t);
        word(blob, offsetof(struct atc_task, params) + offsetof(struct unary_params, alpha));
        word(blob, EIGHT);
        word(blob, (uint32_t)(fuzz_any(2) ? PATCH_F64 : PATCH_RECIPROCAL));
    }
    for (uint32_t t = 0; t + 1 < tasks; t++) {
        word(blob, fuzz_any(16) ? (uint32_t)BYTES : (uint32_t)fuzz_any(N_SLOTS));
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

/* A serialized plan and its records, in blocks of their exact size: the sanitizer sees the first
 * byte beyond.
 */
struct input {
    uint8_t *blob, *records;
    size_t blob_bytes, record_bytes;
    enum atc_isa isa;
    const char *only;
};

static struct input an_input(void)
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
    switch (fuzz_any(16)) {
    case 0:
    case 1:
    case 2:
        ((uint8_t *)records)[fuzz_any(sizeof *records * tasks)] = (uint8_t)fuzz_any(256);
        break;
    case 3:
        records[0].slots[fuzz_any(2)] = (struct atc_slot){.region = REGION_NONE};
        break;
    case 4:
        memset(records[0].family, 'a', sizeof records[0].family); /* its end is missing */
        break;
    default:
        break;
    }
    struct input input = {
        .blob_bytes = fuzz_any(32) ? 4 * blob.n : fuzz_any(4 * blob.n),
        .record_bytes = sizeof *records * tasks - (fuzz_any(64) == 0),
        .isa = (enum atc_isa)fuzz_any((uint64_t)atc_this_cpu()->isa + 1),
        .only = fuzz_any(8) ? NULL : "unary_f32_scalar",
    };
    input.blob = room(input.blob_bytes);
    input.records = room(input.record_bytes);
    memcpy(input.blob, blob.words, input.blob_bytes);
    memcpy(input.records, records, input.record_bytes);
    return input;
}

static struct atc_symbolic *load(const struct input *input, struct atc_refusal *refusal)
{
    return atc_symbolic_load(input->blob, input->blob_bytes, input->records, input->record_bytes,
                             NULL, 0, 1, input->isa, input->only, refusal);
}

/* A plan is loaded or refused, or an allocation has failed and the refusal says so. */
static void try_allocations(const struct input *input)
{
    bool has_failed = true;
    for (int64_t number = 1; has_failed; number++) {
        struct atc_refusal refusal = {{0}, 0, false};
        fuzz_fail_allocation(number);
        struct atc_symbolic *symbolic = load(input, &refusal);
        has_failed = fuzz_allocation_failed();
        if (refusal.out_of_memory != has_failed || (has_failed && symbolic != NULL))
            abort();
        fuzz_fail_allocation(0);
        if (symbolic != NULL)
            atc_symbolic_free(symbolic);
    }
}

static void try_plan(void)
{
    const struct input input = an_input();
    struct atc_refusal refusal = {{0}, 0, false};
    struct atc_symbolic *symbolic = load(&input, &refusal);
    if (symbolic == NULL && !refusal.reason[0])
        abort(); /* a refusal gives its reason */
    if (fuzz_any(64) == 0)
        try_allocations(&input);
    free(input.blob);
    free(input.records);
    if (symbolic == NULL)
        return;
    loaded++;
    for (int i = 0; i < 4; i++)
        instantiate(symbolic);
    atc_symbolic_free(symbolic);
}

/* Numbers that cannot be added or multiplied are too big. */
static void try_arithmetic(void)
{
    __extension__ typedef __int128 wide;
    const int64_t a = a_value(), b = a_value();
    const bool is_negative = a < 0 || b < 0;
    const wide sum = (wide)a + b, product = (wide)a * b;
    if (atc_add(a, b) != (is_negative || sum > ATC_TOO_BIG ? ATC_TOO_BIG : (int64_t)sum) ||
        atc_mul(a, b) != (is_negative || product > ATC_TOO_BIG ? ATC_TOO_BIG : (int64_t)product))
        abort();
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
        try_arithmetic();
    }
    printf("%lld symbolic plans: %lld loaded, %lld instances, %lld run; 0 findings\n",
           (long long)runs, (long long)loaded, (long long)instances, (long long)ran);
    return 0;
}
