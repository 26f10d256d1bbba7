/* Fuzz target: what a checker lets pass touches nothing outside the extents that it noted.
 *
 *     fuzz_kernels [-runs=N] [-seconds=S] [-seed=S] [-family=NAME] [-records=FILE] [-keep=FILE]
 *                  [-corpus=FILE] | fuzz_kernels FILE...
 *
 * Starts from the launches in `records` (seed_records.py) and variants of them that do not depend
 * on chance, changes their fields, and keeps those that reach new edges of checkers, costs and
 * drivers. What passes the loader's checks and is small runs on every instruction set, twice: each
 * operand lies in memory of exactly its extent, once with a page behind it that must not be
 * touched, once with one before it. Both runs must leave the same bytes: sources as they were,
 * results without what was there before, whatever the scratch held, however the items are split,
 * and whether or not the result takes the memory of a source.
 *
 * A finding ends the program: it is described on stderr and written to `keep`, which a later call
 * runs again. `corpus` gets the inputs that reached new edges.
 */
#include "core/cpu.h"
#include "core/plan.h"
#include "fuzz_content.h"
#include "fuzz_memory.h"
#include "fuzz_mutate.h"
#include "quant/qwinograd2d.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum {
    MAX_TOTAL = REGION_SIZE - PAGE, /* bytes of all operands, and of the scratch */
    QUICK_WORK = 1 << 14,
    MAX_WORK = 1 << 20,
    MAX_FAMILIES = 128,
    MAX_CORPUS = 400, /* inputs of a family */
    MAX_SPLITS = 3,
    MIN_SEEDS = 12, /* of a family, whether they reach new edges or not */
};

/* Of processor time, for work that the families call small. */
#ifdef ATC_VALGRIND
enum { MAX_SECONDS = 120 };
#elif defined __SANITIZE_ADDRESS__
enum { MAX_SECONDS = 20 };
#else
enum { MAX_SECONDS = 3 };
#endif

static_assert((int)REGION_SIZE == (int)OPERAND_BYTES, "an operand fits its region");
static struct region operand_regions[ATC_MAX_SLOTS], scratch_region, constants_region;

/* --- findings -------------------------------------------------------------------------------- */

static const struct fuzz_launch *at_work;
static const struct fuzz_family *family_at_work;
static const char *row_at_work = "its checker";
static const char *keep_path = "fuzz_kernels.bin";

/* Makes the operands of a launch as large as its checker asks for; false if that refuses it. */
static bool make_exact(struct fuzz_launch *launch, const struct fuzz_family *f)
{
    struct atc_task_needs needs;
    const char *reason =
        atc_check_task(&launch->task, f->family, launch->constants, atc_this_cpu(), &needs);
    for (int i = 0; i < launch->task.n_src + launch->task.n_dst; i++)
        if (launch->task.slots[i].region == REGION_ARENA)
            launch->task.slots[i].bytes = (uint64_t)needs.extents[i];
    return reason == NULL;
}

static void describe(const char *what)
{
    fprintf(stderr, "\nfinding: %s in %s\n", what, row_at_work);
    struct fuzz_launch launch = *at_work;
    at_work = NULL; /* a finding on the way would be another one */
    make_exact(&launch, family_at_work);
    fuzz_describe(stderr, &launch, family_at_work->family);
    fuzz_write(keep_path, &launch, sizeof launch);
}

static _Noreturn void report(const char *what)
{
    if (at_work != NULL)
        describe(what);
    _exit(1);
}

static void on_signal(int number)
{
    report(number == SIGVTALRM ? "no end of the work" : strsignal(number));
}

#ifdef __SANITIZE_ADDRESS__
/* Undefined behaviour ends in SIGABRT: its reports do not ask for the callback. */
const char *__ubsan_default_options(void);
__attribute__((visibility("default"))) const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1:abort_on_error=1";
}

static void on_death(void)
{
    if (at_work != NULL)
        describe("a report of the sanitizer");
}
#endif

static void catch_findings(void)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_death_callback(on_death);
    const int signals[] = {SIGVTALRM, SIGABRT};
#else
    const int signals[] = {SIGVTALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
#endif
    static uint8_t stack[1 << 16];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_ONSTACK},
                  NULL);
}

static void watch(void)
{
    const struct itimerval timer = {.it_value = {.tv_sec = MAX_SECONDS}};
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

/* --- contents -------------------------------------------------------------------------------- */

/* Destinations that a family reads, or of which its kernels leave a part as it is. */
struct habit {
    const char *family;
    uint32_t reads, leaves; /* bit d: destination d */
};

static const struct habit habits[] = {
    {"attention", 6, 0},      /* rows of the past that lie in the cache */
    {"elements", 1, 0},       /* scatters into what is there; rows behind a fault */
    {"scatter_nd", 1, 0},     /* likewise */
    {"tensor_scatter", 1, 0}, /* likewise */
    {"strided_copy", 0, 1},   /* what the strides step over */
    {"matmul", 0, 1},         /* likewise */
    {"compress", 0, 1},       /* room for more than there is */
    {"nonzero", 0, 1},        /* likewise */
    {"unique", 0, 15},        /* likewise */
    {"nms", 0, 1},            /* likewise */
    {"batchnorm", 0, 1},      /* channels beyond the last of a block (ADR 0005) */
    {"conv2d", 0, 1},         /* likewise */
    {"winograd2d", 0, 1},     /* likewise, where it computes as conv2d does */
    {"conv_transpose2d", 0, 1},
};

static struct habit habit_of(const struct kernel_family *family)
{
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++)
        if (strcmp(habits[i].family, family->name) == 0)
            return habits[i];
    return (struct habit){family->name, 0, 0};
}

/* What may bound indices: a number of the record, or of the elements of an operand. */
static int64_t any_bound(const struct fuzz_launch *launch, const struct fuzz_family *f,
                         const struct atc_task_needs *needs)
{
    int64_t bound = 1 + (int64_t)fuzz_any(4);
    const int operand = (int)fuzz_any((uint64_t)(launch->task.n_src + launch->task.n_dst));
    const int64_t item = atc_item_bytes(launch->task.slots[operand].dtype);
    if (fuzz_any(3) == 0 && item > 0)
        bound = needs->extents[operand] / item;
    else if (f->n_fields > 0 && fuzz_any(4) != 0)
        memcpy(&bound, launch->task.params + 8 * fuzz_any((uint64_t)f->n_fields), sizeof bound);
    return bound >= 1 && bound <= OPERAND_BYTES ? bound : 1;
}

/* --- runs ------------------------------------------------------------------------------------ */

/* What all runs of an input share. */
struct trial {
    const struct fuzz_launch *launch;
    const struct fuzz_family *f;
    const struct atc_task_needs *needs;
    const struct atc_cpu *cpu;
    struct habit habit;
    int aliased; /* the source that destination 0 may be, or -1 */
    int64_t splits[MAX_SPLITS + 1];
    int n_splits;
};

static uint8_t content[ATC_MAX_SLOTS][REGION_SIZE], result[ATC_MAX_SLOTS][REGION_SIZE],
    scalar_result[ATC_MAX_SLOTS][REGION_SIZE];

static bool is_dst(const struct trial *t, int number)
{
    return number >= t->launch->task.n_src;
}

static bool has_habit(const struct trial *t, uint32_t habit, int number)
{
    return is_dst(t, number) && (habit >> (number - t->launch->task.n_src) & 1) != 0;
}

static int operands(const struct trial *t)
{
    return t->launch->task.n_src + t->launch->task.n_dst;
}

/* One way to run a launch. */
struct run {
    bool at_end;     /* blocks lie at the end of their regions */
    bool is_split;   /* items are run in several calls */
    bool is_aliased; /* destination 0 is a source */
    uint8_t pattern; /* what is in destinations and scratch before */
};

static void run_items(const struct trial *t, const struct kernel_row *row, struct kernel_args *args,
                      bool is_split)
{
    if (!is_split) {
        args->end = t->needs->cost.items;
        row->fn(args);
        return;
    }
    for (int i = t->n_splits - 1; i >= 0; i--) { /* threads take items in any order */
        args->begin = t->splits[i];
        args->end = t->splits[i + 1];
        if (args->begin < args->end)
            row->fn(args);
    }
}

/* Runs a launch; its results lie in `blocks` then. False after a fault. */
static bool run_launch(const struct trial *t, const struct kernel_row *row, struct run run,
                       struct block *blocks)
{
    const struct atc_task *task = &t->launch->task;
    struct atc_fault fault = {0};
    uint64_t kept[ATC_KEPT] = {0};
    struct kernel_args args = {
        .params = task->params, .cpu = t->cpu, .fault = &fault, .entropy = 7, .kept = kept};
    for (int i = 0; i < operands(t); i++) {
        const struct atc_slot *slot = task->slots + i;
        const int64_t bytes = t->needs->extents[i], item = atc_item_bytes(slot->dtype);
        if (run.is_aliased && i == task->n_src) {
            blocks[i] = blocks[t->aliased];
        } else {
            blocks[i] = place(operand_regions[i], bytes, item > 0 ? item : 1, run.at_end);
            if (is_dst(t, i) && !has_habit(t, t->habit.reads, i)) {
                memset(blocks[i].at, run.pattern, (size_t)bytes);
                forget_content(blocks + i);
            } else {
                memcpy(blocks[i].at, content[i], (size_t)bytes);
            }
            forbid_around(blocks + i);
        }
        void *at = slot->region == REGION_NONE ? NULL : blocks[i].at;
        if (is_dst(t, i))
            args.dst[i - task->n_src] = at;
        else
            args.src[i] = at;
    }
    const struct block scratch = place(scratch_region, t->needs->cost.scratch, 64, run.at_end);
    memset(scratch.at, run.pattern, (size_t)scratch.bytes);
    forget_content(&scratch);
    forbid_around(&scratch);
    args.scratch = scratch.at;
    row_at_work = row->symbol;
    const int64_t errors = reported_errors();
    run_items(t, row, &args, run.is_split);
    if (reported_errors() > errors)
        report("Valgrind reports an error");
    for (int i = task->n_src; i < operands(t) && fault.code == FAULT_NONE; i++) {
        const int64_t at = has_habit(t, t->habit.leaves, i) ? -1 : first_undefined(blocks + i);
        if (at >= 0) {
            fprintf(stderr, "destination %d, byte %lld\n", i - task->n_src, (long long)at);
            report("a result that was not computed, or from memory that nobody wrote");
        }
    }
    if (!is_intact(&scratch))
        report("bytes around the scratch were written");
    for (int i = 0; i < operands(t); i++) {
        if (!is_intact(blocks + i))
            report("bytes around an operand were written");
        const bool is_result = run.is_aliased && i == t->aliased;
        if (!is_dst(t, i) && !is_result &&
            memcmp(blocks[i].at, content[i], (size_t)blocks[i].bytes) != 0)
            report("a source was written");
    }
    return fault.code == FAULT_NONE;
}

/* True if both runs left byte `at` of an operand as it was. */
static bool is_left(const struct trial *t, int number, int64_t at, const struct run *first,
                    const struct run *second, uint8_t byte)
{
    const bool is_alias = second->is_aliased && number == t->launch->task.n_src;
    const uint8_t before = is_alias ? content[t->aliased][at] : second->pattern;
    return has_habit(t, t->habit.leaves, number) && result[number][at] == first->pattern &&
           byte == before;
}

static void compare(const struct trial *t, const struct run *first, const struct run *second,
                    const struct block *blocks)
{
    for (int i = t->launch->task.n_src; i < operands(t); i++) {
        if (memcmp(result[i], blocks[i].at, (size_t)blocks[i].bytes) == 0)
            continue;
        for (int64_t at = 0; at < blocks[i].bytes; at++) {
            if (result[i][at] == blocks[i].at[at] ||
                is_left(t, i, at, first, second, blocks[i].at[at]))
                continue;
            fprintf(stderr, "destination %d, byte %lld of %lld: %02x and %02x\n",
                    i - t->launch->task.n_src, (long long)at, (long long)blocks[i].bytes,
                    result[i][at], blocks[i].at[at]);
            report(
                "results depend on memory, on how items are split, or on whose memory they take");
        }
    }
}

/* Families whose floats are made of integers that all rows sum up, by the same operations. */
static const char *const scaled_sums[] = {"qgemm", "qwinograd2d", "qdepthwise"};

/* Whether all rows compute the same bytes. */
static bool is_exact(const struct trial *t)
{
    const struct atc_task *task = &t->launch->task;
    for (size_t i = 0; i < sizeof scaled_sums / sizeof scaled_sums[0]; i++)
        if (strcmp(t->f->family->name, scaled_sums[i]) == 0)
            return true;
    for (int i = 0; i < operands(t); i++) {
        const int dtype = task->slots[i].dtype;
        if (dtype != 0 && dtype != DTYPE_BOOL && (dtype < DTYPE_U8 || dtype > DTYPE_I64) &&
            dtype != DTYPE_U32 && dtype != DTYPE_U64)
            return false;
    }
    return task->n_dst > 0;
}

static int64_t ran;

/* Runs a launch on one row, in two ways. True if there was no fault. */
static bool try_row(const struct trial *t, const struct kernel_row *row)
{
    struct block blocks[ATC_MAX_SLOTS];
    const struct run first = {.at_end = true, .pattern = 0xa5};
    const struct run second = {.is_split = true, .is_aliased = t->aliased >= 0, .pattern = 0x5a};
    ran++;
    const bool is_done = run_launch(t, row, first, blocks);
    for (int i = t->launch->task.n_src; i < operands(t); i++)
        memcpy(result[i], blocks[i].at, (size_t)blocks[i].bytes);
    if (!run_launch(t, row, second, blocks) || !is_done)
        return false;
    compare(t, &first, &second, blocks);
    return true;
}

static void try_rows(const struct trial *t)
{
    const struct kernel_row *last = NULL;
    const bool exact = is_exact(t);
    for (int isa = ISA_SCALAR; isa < ISA_COUNT; isa++) {
        if (!atc_has_isa((enum atc_isa)isa))
            continue;
        const struct kernel_row *row =
            atc_choose_row(t->f->rows, &t->launch->task, (enum atc_isa)isa, NULL);
        if (row == NULL || row == last)
            continue;
        if (!try_row(t, row))
            return;
        for (int i = t->launch->task.n_src; exact && i < operands(t); i++) {
            const size_t bytes = (size_t)t->needs->extents[i];
            if (last == NULL)
                memcpy(scalar_result[i], result[i], bytes);
            else if (!has_habit(t, t->habit.leaves, i) &&
                     memcmp(scalar_result[i], result[i], bytes) != 0)
                report("results differ from those of the scalar row");
        }
        last = row;
    }
}

/* --- one input ------------------------------------------------------------------------------- */

static int64_t accepted;

static bool is_small(const struct atc_task_needs *needs)
{
    int64_t bytes = 0;
    for (int i = 0; i < ATC_MAX_SLOTS; i++)
        bytes = atc_add(bytes, needs->extents[i]);
    const int64_t max_work = fuzz_any(64) == 0 ? MAX_WORK : QUICK_WORK;
    return bytes <= (max_work == MAX_WORK ? MAX_TOTAL : 8 * QUICK_WORK) &&
           needs->cost.scratch <= MAX_TOTAL &&
           atc_add(needs->cost.work, needs->cost.items) <= max_work;
}

/* Packed weights of qgemm end with their own sums. Rows that multiply bytes of x as if they had the
 * other sign take these for the difference; with other sums each row would be right in its own way.
 */
static void sum_panels(const struct trial *t, const struct qgemm_params *p)
{
    static uint8_t real[REGION_SIZE];
    if (p->w_packed != 1)
        return;
    const int64_t rows = qgemm_k1(p) * QGEMM_BLOCK, panel_bytes = rows + QGEMM_BLOCK;
    qgemm_ones(&(struct kernel_args){.params = p}, real);
    for (int64_t at = 0; at < t->needs->extents[QGEMM_W]; at += panel_bytes) {
        uint8_t *panel = content[QGEMM_W] + at;
        uint32_t sums[QGEMM_PANEL] = {0};
        for (int64_t i = 0; i < qgemm_multiplied_k1(p) * QGEMM_BLOCK; i++) {
            const bool is_unsigned = p->w_signed == 0 && real[i] != 0;
            const int32_t weight = is_unsigned ? panel[i] : (int8_t)panel[i];
            sums[i % QGEMM_BLOCK / QGEMM_K0] += (uint32_t)weight;
        }
        memcpy(panel + rows, sums, sizeof sums);
    }
}

/* The source whose memory the first destination takes, or -1. */
static int aliased_source(const struct atc_task *task)
{
    for (int s = 0; s < task->n_src && task->n_dst > 0; s++)
        if (task->slots[s].region == REGION_ARENA &&
            atc_same_memory(task->slots + s, task->slots + task->n_src))
            return s;
    return -1;
}

static void run_input(const struct fuzz_launch *launch, const struct fuzz_family *f)
{
    struct atc_task_needs needs;
    const struct block constants = place(constants_region, FUZZ_CONSTANTS, 16, true);
    memcpy(constants.at, launch->constants, FUZZ_CONSTANTS);
    struct atc_cpu cpu = *atc_this_cpu();
    cpu.threads = 1 << fuzz_any(8); /* so many cut a task into other items */
    at_work = launch;
    family_at_work = f;
    row_at_work = "its checker";
    watch();
    const char *reason = atc_check_task(&launch->task, f->family, constants.at, &cpu, &needs);
    if (reason != NULL && reason[0] == 0)
        report("a refusal without a reason");
    if (reason != NULL)
        return;
    accepted++;
    if (needs.cost.items == 0 || f->family->control != CONTROL_NONE || !is_small(&needs))
        return;
    struct trial t = {.launch = launch,
                      .f = f,
                      .needs = &needs,
                      .cpu = &cpu,
                      .habit = habit_of(f->family),
                      .aliased = aliased_source(&launch->task),
                      .n_splits = 1 + (int)fuzz_any(MAX_SPLITS)};
    for (int i = 1; i < t.n_splits; i++)
        t.splits[i] =
            t.splits[i - 1] + (int64_t)fuzz_any((uint64_t)(needs.cost.items - t.splits[i - 1]) + 1);
    t.splits[t.n_splits] = needs.cost.items;
    const bool is_tame = fuzz_any(3) != 0;
    for (int i = 0; i < operands(&t); i++) {
        const struct atc_slot *slot = launch->task.slots + i;
        if (slot->region == REGION_WEIGHTS)
            memcpy(content[i], constants.at + slot->offset, (size_t)needs.extents[i]);
        else if (!is_dst(&t, i) || has_habit(&t, t.habit.reads, i))
            fill_content(content[i], needs.extents[i], slot->dtype, is_tame,
                         any_bound(launch, f, &needs));
    }
    const void *params = launch->task.params;
    if (strcmp(f->family->name, "qgemm") == 0)
        sum_panels(&t, params);
    if (strcmp(f->family->name, "qwinograd2d") == 0) {
        const struct qgemm_params direct = qwinograd2d_definition(params);
        sum_panels(&t, &direct);
    }
    try_rows(&t);
}

/* --- the loop -------------------------------------------------------------------------------- */

struct corpus {
    struct fuzz_family f;
    struct fuzz_launch *inputs;
    int count;
};

static struct corpus families[MAX_FAMILIES];
static int n_families;

static struct corpus *corpus_of(const char *family)
{
    for (int i = 0; i < n_families; i++)
        if (strncmp(families[i].f.family->name, family, ATC_FAMILY_BYTES) == 0)
            return families + i;
    return NULL;
}

static void list_families(void)
{
    for (int i = 0; i < kernel_table_rows && n_families < MAX_FAMILIES; i++)
        if (n_families == 0 || families[n_families - 1].f.family != kernel_table[i].family)
            families[n_families++] = (struct corpus){.f = fuzz_family_of(kernel_table + i)};
}

static void keep_input(struct corpus *corpus, const struct fuzz_launch *launch)
{
    if (corpus->inputs == NULL)
        corpus->inputs = calloc(MAX_CORPUS, sizeof *corpus->inputs);
    if (corpus->inputs == NULL)
        exit(2);
    const int at = corpus->count < MAX_CORPUS ? corpus->count++ : (int)fuzz_any(MAX_CORPUS);
    corpus->inputs[at] = *launch;
}

/* Whether a launch before number `at` is of the same family and has operands of the same types. */
static bool has_types_of_another(const struct fuzz_launch *seeds, size_t at)
{
    const struct atc_task *task = &seeds[at].task;
    for (size_t i = 0; i < at; i++) {
        const struct atc_task *other = &seeds[i].task;
        bool is_alike = strcmp(task->family, other->family) == 0 && task->n_src == other->n_src;
        for (int k = 0; is_alike && k < ATC_MAX_SLOTS; k++)
            is_alike = task->slots[k].dtype == other->slots[k].dtype;
        if (is_alike)
            return true;
    }
    return false;
}

static void take_seeds(const char *path, const char *only)
{
    size_t n;
    struct fuzz_launch *seeds = fuzz_read(path, &n);
    for (size_t i = 0; i < n; i++) {
        struct corpus *corpus = corpus_of(seeds[i].task.family);
        if (corpus == NULL || (only != NULL && strcmp(corpus->f.family->name, only) != 0))
            continue;
        fuzz_spread_operands(&seeds[i].task);
        run_input(seeds + i, &corpus->f);
        const bool is_kept = fuzz_found_edges() || corpus->count < MIN_SEEDS;
        if (is_kept)
            keep_input(corpus, seeds + i);
        else if (has_types_of_another(seeds, i))
            continue;
        for (int number = 0; number < fuzz_variants(&corpus->f); number++) {
            const struct fuzz_launch variant = fuzz_variant(seeds + i, &corpus->f, number);
            run_input(&variant, &corpus->f);
            if (fuzz_found_edges())
                keep_input(corpus, &variant);
        }
    }
    free(seeds);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static int64_t fuzz(int64_t runs, int64_t seconds)
{
    struct corpus *seeded[MAX_FAMILIES];
    int n_seeded = 0;
    for (int i = 0; i < n_families; i++)
        if (families[i].count > 0)
            seeded[n_seeded++] = families + i;
    if (n_seeded == 0) {
        fputs("no seeds\n", stderr);
        exit(2);
    }
    const int64_t end = now_ms() + seconds * 1000;
    int64_t done = 0;
    struct fuzz_launch launch;
    for (; done < runs && (done % 1024 != 0 || seconds == 0 || now_ms() < end); done++) {
        struct corpus *corpus = seeded[fuzz_any((uint64_t)n_seeded)];
        launch = corpus->inputs[fuzz_any((uint64_t)corpus->count)];
        const struct fuzz_launch *other = corpus->inputs + fuzz_any((uint64_t)corpus->count);
        for (uint64_t changes = 1 + (fuzz_any(2) ? 0 : fuzz_any(4)); changes > 0; changes--)
            fuzz_change(&launch, &corpus->f, other);
        run_input(&launch, &corpus->f);
        if (fuzz_found_edges())
            keep_input(corpus, &launch);
    }
    return done;
}

/* Writes the inputs that are accepted, where a path is given; returns how many are kept. */
static int write_corpus(const char *path)
{
    int kept = 0;
    size_t n = 0;
    for (int i = 0; i < n_families; i++)
        kept += families[i].count;
    struct fuzz_launch *all = calloc((size_t)kept + 1, sizeof *all);
    if (all == NULL)
        exit(2);
    for (int i = 0; i < n_families; i++)
        for (int k = 0; k < families[i].count; k++) {
            all[n] = families[i].inputs[k];
            n += make_exact(all + n, &families[i].f);
        }
    if (path != NULL)
        fuzz_write(path, all, n * sizeof *all);
    free(all);
    return kept;
}

static void replay(const char *path)
{
    size_t n;
    struct fuzz_launch *launches = fuzz_read(path, &n);
    for (size_t i = 0; i < n; i++) {
        struct corpus *corpus = corpus_of(launches[i].task.family);
        if (corpus == NULL)
            continue;
        fuzz_describe(stdout, launches + i, corpus->f.family);
        fuzz_spread_operands(&launches[i].task);
        for (int times = 0; times < 300; times++) /* with other contents and splits */
            run_input(launches + i, &corpus->f);
    }
    free(launches);
    printf("%s: %lld runs, no finding\n", path, (long long)ran);
}

int main(int argc, char **argv)
{
    int64_t runs = INT64_MAX, seconds = 0;
    const char *corpus = NULL, *only = NULL, *records = NULL;
    int files = 0;
    list_families();
    for (int i = 0; i < ATC_MAX_SLOTS; i++)
        operand_regions[i] = map_region();
    scratch_region = map_region();
    constants_region = map_region();
    catch_findings();
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-runs=", 6) == 0)
            runs = atoll(argv[i] + 6);
        else if (strncmp(argv[i], "-seconds=", 9) == 0)
            seconds = atoll(argv[i] + 9);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            fuzz_seed(strtoull(argv[i] + 6, NULL, 10));
        else if (strncmp(argv[i], "-family=", 8) == 0)
            only = argv[i] + 8;
        else if (strncmp(argv[i], "-records=", 9) == 0)
            records = argv[i] + 9;
        else if (strncmp(argv[i], "-keep=", 6) == 0)
            keep_path = argv[i] + 6;
        else if (strncmp(argv[i], "-corpus=", 8) == 0)
            corpus = argv[i] + 8;
        else {
            replay(argv[i]);
            files++;
        }
    }
    if (files > 0)
        return 0;
    if (records == NULL) {
        fputs("fuzz_kernels needs -records=FILE\n", stderr);
        return 2;
    }
    take_seeds(records, only);
    const int64_t start = now_ms(), done = runs > 0 ? fuzz(runs, seconds) : 0;
    const int64_t elapsed = now_ms() - start;
    printf("%lld launches: %lld accepted, %lld run by a row; %lld edges, %d kept; %lld a second; 0 "
           "findings\n",
           (long long)done, (long long)accepted, (long long)ran, (long long)fuzz_edges,
           write_corpus(corpus), (long long)(done * 1000 / (elapsed > 0 ? elapsed : 1)));
    return 0;
}
