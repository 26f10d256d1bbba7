#include "core/plan.h"

#include "core/collectives.h"
#include "core/control.h"
#include "core/cpu.h"
#include "core/streams.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below so many element operations, waking another thread costs more than it saves. Above so many,
 * a task may take long enough that someone wants to end it, and begins with slices of so many.
 */
enum { PARALLEL_WORK = 20000, LONG_WORK = 1 << 19, SLICE_WORK = 1 << 17 };

/* What a task may do and take whatever its operands are, about a second and some MB, and for each
 * byte of them that it touches.
 */
enum {
    FREE_WORK = 1 << 30,
    WORK_PER_BYTE = 4096,
    FREE_SCRATCH = 1 << 26,
    SCRATCH_PER_BYTE = 256,
};

/* How much of the constants the checks of a plan may read, a tenth of a second's worth, and for
 * each byte of them. A record is small, and many may name the same constants.
 */
enum { FREE_READS = 1 << 28, READS_PER_BYTE = 16 };

bool atc_refuse(struct atc_refusal *refusal, int64_t task, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(refusal->reason, sizeof refusal->reason, format, args);
    va_end(args);
    refusal->task = task;
    return false;
}

bool atc_refuse_memory(struct atc_refusal *refusal)
{
    refusal->out_of_memory = true;
    return atc_refuse(refusal, -1, "out of memory");
}

static int64_t room_of(const struct atc_slot *slot, const struct atc_limits *limits)
{
    switch (slot->region) {
    case REGION_ARENA:
        return limits->arena_bytes;
    case REGION_WEIGHTS:
        return limits->weight_bytes;
    case REGION_INPUT:
        return slot->index < limits->n_inputs ? limits->input_bytes[slot->index] : -1;
    case REGION_OUTPUT:
        return slot->index < limits->n_outputs ? limits->output_bytes[slot->index] : -1;
    default:
        return -1;
    }
}

static bool slot_ok(const struct atc_slot *slot, bool is_dst, const struct atc_limits *limits)
{
    if (slot->reserved != 0)
        return false;
    if (slot->region == REGION_NONE)
        return !is_dst && slot->dtype == 0 && slot->index == 0 && slot->offset == 0 &&
               slot->bytes == 0;
    const int64_t room = room_of(slot, limits);
    if (room < 0 || slot->offset > (uint64_t)room || slot->bytes > (uint64_t)room - slot->offset)
        return false;
    if (is_dst && slot->region != REGION_ARENA && slot->region != REGION_OUTPUT)
        return false;
    const bool indexed = slot->region == REGION_INPUT || slot->region == REGION_OUTPUT;
    const int64_t item = atc_item_bytes(slot->dtype);
    return (indexed || slot->index == 0) && (item == 0 || slot->offset % (uint64_t)item == 0);
}

/* Bytes that are equal to their neighbours, the first of which is zero: memcmp is fast. */
static bool all_zero(const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    return n == 0 || (at[0] == 0 && memcmp(at, at + 1, n - 1) == 0);
}

bool atc_slots_overlap(const struct atc_slot *a, const struct atc_slot *b)
{
    return a->region == b->region && a->index == b->index && a->bytes > 0 && b->bytes > 0 &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Destinations may share memory with nothing but a source that the family allows, exactly. */
static bool overlaps_ok(const struct atc_task *task, uint32_t inplace, const int64_t *extents)
{
    const struct atc_slot *dst = task->slots + task->n_src;
    for (int d = 0; d < task->n_dst; d++) {
        for (int s = 0; s < task->n_src; s++) {
            const bool allowed = d == 0 && (inplace >> s & 1) != 0 &&
                                 dst[0].offset == task->slots[s].offset &&
                                 extents[s] == extents[task->n_src];
            if (atc_slots_overlap(dst + d, task->slots + s) && !allowed)
                return false;
        }
        for (int e = 0; e < d; e++)
            if (atc_slots_overlap(dst + d, dst + e))
                return false;
    }
    return true;
}

static bool header_ok(const struct atc_task *task)
{
    if (memchr(task->family, 0, ATC_FAMILY_BYTES) == NULL)
        return false;
    const size_t used = strlen(task->family);
    const int slots = task->n_src + task->n_dst;
    return all_zero(task->family + used, ATC_FAMILY_BYTES - used) && slots <= ATC_MAX_SLOTS &&
           task->reserved0 == 0 && task->reserved1 == 0 &&
           all_zero(task->slots + slots, sizeof(struct atc_slot) * (size_t)(ATC_MAX_SLOTS - slots));
}

/* Tasks run in the order of their records: what a task waits for must have happened. Events are
 * recorded in the order of their numbers.
 */
static bool events_ok(const struct atc_task *task, uint32_t *recorded)
{
    if (task->event_wait > *recorded)
        return false;
    if (task->event_record == 0)
        return true;
    *recorded += 1;
    return task->event_record == *recorded;
}

static size_t params_used(const struct kernel_family *family)
{
    size_t count = 0;
    for (const struct param_field *field = family->fields; field->name; field++)
        count += (size_t)field->count;
    return count * 8;
}

/* True if every enum field holds one of its names. */
static bool enums_ok(const struct kernel_family *family, const uint8_t *params)
{
    for (const struct param_field *field = family->fields; field->name; field++) {
        int64_t value, n = 0;
        memcpy(&value, params, sizeof value);
        params += (size_t)field->count * 8;
        if (field->choices == NULL)
            continue;
        while (field->choices[n] != NULL)
            n++;
        if (value < 0 || value >= n)
            return false;
    }
    return true;
}

static bool row_fits(const struct kernel_row *row, const struct atc_task *task, enum atc_isa isa,
                     const char *only)
{
    const struct task_view view = {.src = task->slots,
                                   .dst = task->slots + task->n_src,
                                   .n_src = task->n_src,
                                   .n_dst = task->n_dst,
                                   .params = task->params};
    if (!atc_isa_runs(isa, row->isa))
        return false;
    if (only != NULL && strcmp(row->symbol, only) != 0)
        return false;
    return (row->dtype == DTYPE_ANY || row->dtype == task->slots[0].dtype) &&
           (row->fits == NULL || row->fits(&view));
}

/* A record is small, its arguments are not: windows of 2^40 taps over nothing but padding would run
 * for hours, rows that are padded to 2^40 take as much scratch. Real ops stay far below this: a
 * product of 16384 × 16384 does 85 operations a byte, a pooling window of 99 × 99 does 1225, a
 * transform takes 128 bytes of scratch for a byte of its result.
 */
static const char *cost_problem(const struct atc_task_needs *needs)
{
    int64_t bytes = 0;
    for (int i = 0; i < ATC_MAX_SLOTS; i++)
        bytes = atc_add(bytes, needs->extents[i]);
    const int64_t work = atc_add(needs->cost.work, needs->cost.items);
    /* What is too big may be any number: the bound of operands that are large is too big as well.
     */
    if (work >= ATC_TOO_BIG || work > atc_add(FREE_WORK, atc_mul(WORK_PER_BYTE, bytes)))
        return "more work than its operands can ask for";
    const int64_t scratch = needs->cost.scratch;
    if (scratch >= ATC_TOO_BIG || scratch > atc_add(FREE_SCRATCH, atc_mul(SCRATCH_PER_BYTE, bytes)))
        return "more scratch than its operands can ask for";
    return NULL;
}

static bool is_empty(const struct atc_task_needs *needs)
{
    return all_zero(needs->extents, sizeof needs->extents);
}

const char *atc_check_task(const struct atc_task *task, const struct kernel_family *family,
                           const uint8_t *weights, const struct atc_cpu *cpu,
                           struct atc_task_needs *needs)
{
    *needs = (struct atc_task_needs){0};
    const size_t used = params_used(family);
    if (!all_zero(task->params + used, ATC_PARAM_BYTES - used))
        return "arguments beyond the last";
    if (!enums_ok(family, task->params))
        return "no such choice";
    const struct task_view view = {.src = task->slots,
                                   .dst = task->slots + task->n_src,
                                   .n_src = task->n_src,
                                   .n_dst = task->n_dst,
                                   .params = task->params,
                                   .weights = family->reads_constants ? weights : NULL,
                                   .extents = needs->extents,
                                   .read = &needs->read};
    const char *reason = family->check(&view);
    if (reason != NULL)
        return reason;
    if (!overlaps_ok(task, family->inplace, needs->extents))
        return "operands overlap";
    needs->cost = family->cost(task->params, cpu);
    if (is_empty(needs)) /* no matter how often it would do nothing */
        needs->cost = (struct kernel_cost){0};
    return cost_problem(needs);
}

const struct kernel_row *atc_choose_row(const struct kernel_row *rows, const struct atc_task *task,
                                        enum atc_isa isa, const char *only)
{
    const struct kernel_family *family = rows->family;
    const struct kernel_row *end = kernel_table + kernel_table_rows;
    for (; rows < end && rows->family == family; rows++)
        if (row_fits(rows, task, isa, only))
            return rows;
    return NULL;
}

/* How long a task may take: as long as its family says, and no less than its items and what it
 * writes take. Sums of nothing have no work, but fill their results.
 */
static int64_t longest_work(const struct atc_task *task, const struct atc_task_needs *needs)
{
    int64_t written = 0;
    for (int i = 0; i < task->n_dst; i++)
        written = atc_add(written, needs->extents[task->n_src + i]);
    const int64_t least = atc_add(needs->cost.items, written / (int64_t)sizeof(uint64_t));
    return needs->cost.work > least ? needs->cost.work : least;
}

static bool bind(struct atc_plan *plan, int64_t number, const struct kernel_row *rows,
                 const struct atc_limits *limits, enum atc_isa isa, const char *only,
                 struct atc_refusal *refusal)
{
    const struct atc_task *task = plan->records + number;
    struct atc_bound_task *bound = plan->tasks + number;
    if (!header_ok(task))
        return atc_refuse(refusal, number, "malformed record");
    for (int i = 0; i < task->n_src + task->n_dst; i++)
        if (!slot_ok(task->slots + i, i >= task->n_src, limits))
            return atc_refuse(refusal, number, "operand %d is out of bounds", i);

    static const uint32_t base_of[] = {BASE_NONE, BASE_ARENA, BASE_WEIGHTS, BASE_PORTS, BASE_PORTS};
    bound->n_src = task->n_src;
    bound->n_dst = task->n_dst;
    for (int i = 0; i < task->n_src + task->n_dst; i++) {
        const struct atc_slot *slot = task->slots + i;
        bound->operands[i].base = base_of[slot->region] + slot->index;
        if (slot->region == REGION_OUTPUT)
            bound->operands[i].base += (uint32_t)limits->n_inputs;
        bound->operands[i].offset = slot->offset;
    }
    if (strcmp(task->family, "host") == 0)
        return true;

    if (rows == NULL)
        rows = atc_find_rows(task->family);
    if (rows == NULL)
        return atc_refuse(refusal, number, "no kernel family of that name");
    const struct kernel_family *family = rows->family;
    struct atc_task_needs needs;
    const char *reason = atc_check_task(task, family, plan->weights, &plan->cpu, &needs);
    if (reason != NULL)
        return atc_refuse(refusal, number, "%s: %s", family->name, reason);
    plan->constants_read = atc_add(plan->constants_read, needs.read);
    if (plan->constants_read > atc_add(FREE_READS, atc_mul(READS_PER_BYTE, limits->weight_bytes)))
        return atc_refuse(refusal, number, "%s: its constants are named too often", family->name);
    bound->row = atc_choose_row(rows, task, isa, only);
    if (bound->row == NULL)
        return atc_refuse(refusal, number, "%s: no kernel for these types", family->name);

    bound->fn = bound->row->fn;
    bound->control = family->control;
    bound->params = task->params;
    bound->items = needs.cost.items;
    bound->work = needs.cost.work;
    bound->parallel = bound->work >= PARALLEL_WORK;
    const int64_t work = longest_work(task, &needs);
    if (work >= LONG_WORK) {
        const int64_t slice = needs.cost.items / (work / SLICE_WORK);
        bound->first_slice = slice < 1 ? 1 : slice;
    }
    if (needs.cost.scratch > plan->scratch_bytes)
        plan->scratch_bytes = (needs.cost.scratch + 63) / 64 * 64;
    return true;
}

/* How many tasks behind a record it controls. */
static int64_t controlled_tasks(const struct atc_bound_task *task)
{
    switch (task->control) {
    case CONTROL_IF:
        return ((const struct if_params *)task->params)->then_tasks +
               ((const struct if_params *)task->params)->else_tasks;
    case CONTROL_LOOP:
        return ((const struct loop_params *)task->params)->body_tasks;
    case CONTROL_STREAMS:
        return ((const struct stream_active_params *)task->params)->body_tasks;
    default:
        return 0;
    }
}

/* Notes where each stream of a section ends, and whether its streams run beside each other. */
static bool find_streams(struct atc_plan *plan, int64_t number, struct atc_refusal *refusal)
{
    struct atc_bound_task *section = plan->tasks + number;
    const int64_t first = number + 1, last = first + controlled_tasks(section);
    struct atc_section_cost cost;
    atc_section_begin(&cost, plan->cpu.threads);
    section->items = 0;
    for (int64_t i = first; i < last; i++) {
        const struct atc_bound_task *task = plan->tasks + i;
        const uint32_t stream = plan->records[i].stream;
        if (task->fn == NULL || task->control != CONTROL_NONE)
            return atc_refuse(refusal, i, "a task of the host, or of control flow, is in a stream");
        if (i + 1 < last && plan->records[i + 1].stream < stream)
            return atc_refuse(refusal, i, "the streams are out of order");
        atc_section_add(&cost, task->work, task->items);
        if (i + 1 < last && plan->records[i + 1].stream == stream)
            continue;
        if (section->items == ATC_MAX_STREAMS)
            return atc_refuse(refusal, i, "there are too many streams");
        plan->stream_ends[first + section->items++] = i + 1;
        atc_section_end_stream(&cost);
    }
    section->parallel = plan->cpu.threads > 1 && atc_section_pays(&cost);
    return true;
}

/* Whether no task of a stream of a section writes what one of another stream reads or writes. */
static bool streams_are_apart(const struct atc_plan *plan, int64_t number,
                              struct atc_refusal *refusal)
{
    const int64_t first = number + 1, last = first + controlled_tasks(plan->tasks + number);
    struct atc_access *accesses =
        malloc(sizeof *accesses * ATC_MAX_SLOTS * (size_t)(last - first) + 1);
    size_t n = 0;
    if (accesses == NULL)
        return atc_refuse_memory(refusal);
    for (int64_t i = first; i < last; i++) {
        const struct atc_task *record = plan->records + i;
        for (int k = 0; k < record->n_src + record->n_dst; k++) {
            const struct atc_slot *slot = record->slots + k;
            if (slot->region != REGION_ARENA && slot->region != REGION_OUTPUT)
                continue;
            accesses[n++] = (struct atc_access){.base = plan->tasks[i].operands[k].base,
                                                .stream = record->stream,
                                                .begin = slot->offset,
                                                .end = slot->offset + slot->bytes,
                                                .writes = k >= record->n_src};
        }
    }
    const bool race = atc_streams_race(accesses, n);
    free(accesses);
    if (race)
        return atc_refuse(refusal, number, "a stream writes what another one uses");
    return true;
}

/* Regions of tasks that are controlled lie within each other. No task of the host is among them,
 * and no event, since tasks in them run more than once or not at all.
 */
static bool regions_ok(struct atc_plan *plan, struct atc_refusal *refusal)
{
    int64_t ends[ATC_MAX_REGIONS];
    int depth = 0;
    for (int64_t i = 0; i < plan->n_tasks; i++) {
        while (depth > 0 && ends[depth - 1] == i)
            depth--;
        const struct atc_bound_task *task = plan->tasks + i;
        const struct atc_task *record = plan->records + i;
        if (depth > 0 && (task->fn == NULL || record->event_wait != 0 || record->event_record != 0))
            return atc_refuse(refusal, i, "a task of the host, or an event, is in a body");
        if (task->control == CONTROL_NONE)
            continue;
        const int64_t end = i + 1 + controlled_tasks(task);
        if (end > (depth > 0 ? ends[depth - 1] : plan->n_tasks))
            return atc_refuse(refusal, i, "its tasks reach beyond those around it");
        if (depth + 2 > ATC_MAX_REGIONS)
            return atc_refuse(refusal, i, "bodies are nested too deeply");
        ends[depth++] = end;
        if (task->control == CONTROL_IF)
            ends[depth++] = i + 1 + ((const struct if_params *)task->params)->then_tasks;
        if (task->control == CONTROL_STREAMS &&
            !(find_streams(plan, i, refusal) && streams_are_apart(plan, i, refusal)))
            return false;
    }
    return true;
}

struct atc_plan *atc_plan_load(const uint8_t *records, size_t bytes, const uint8_t *weights,
                               const struct kernel_row *const *rows,
                               const struct atc_limits *limits, int threads, enum atc_isa isa,
                               const char *only, struct atc_refusal *refusal)
{
    refusal->out_of_memory = false;
    if (bytes % ATC_TASK_BYTES != 0 || threads < 1 || limits->arena_bytes < 0 ||
        limits->arena_bytes >= ATC_TOO_BIG) {
        atc_refuse(refusal, -1, "task records or sizes are malformed");
        return NULL;
    }
    struct atc_plan *plan = calloc(1, sizeof *plan);
    const size_t n_tasks = bytes / ATC_TASK_BYTES;
    if (plan != NULL) {
        atc_arena_pool_init(&plan->own_arenas);
        plan->arenas = &plan->own_arenas;
        plan->is_cleared = calloc((size_t)limits->n_outputs + 1, sizeof *plan->is_cleared);
        plan->tasks = calloc(n_tasks + 1, sizeof *plan->tasks);
        plan->stream_ends = calloc(n_tasks + 1, sizeof *plan->stream_ends);
        plan->records = malloc(bytes + 1);
    }
    if (plan == NULL || plan->tasks == NULL || plan->stream_ends == NULL || plan->records == NULL ||
        plan->is_cleared == NULL) {
        atc_refuse_memory(refusal);
        if (plan != NULL)
            atc_plan_free(plan);
        return NULL;
    }
    if (bytes > 0)
        memcpy(plan->records, records, bytes);
    plan->n_tasks = (int64_t)n_tasks;
    plan->weights = weights;
    plan->arena_bytes = (limits->arena_bytes + 63) / 64 * 64;
    plan->n_inputs = limits->n_inputs;
    plan->n_outputs = limits->n_outputs;
    plan->cpu = *atc_this_cpu();
    plan->cpu.threads = threads;
    plan->workers = atc_all_workers();
    uint32_t events = 0;
    for (int64_t i = 0; i < plan->n_tasks; i++) {
        const bool in_order = events_ok(plan->records + i, &events);
        if (!in_order)
            atc_refuse(refusal, i, "its events are out of order");
        if (!in_order ||
            !bind(plan, i, rows == NULL ? NULL : rows[i], limits, isa, only, refusal)) {
            atc_plan_free(plan);
            return NULL;
        }
    }
    if (regions_ok(plan, refusal) && atc_find_joins(plan, refusal))
        return plan;
    atc_plan_free(plan);
    return NULL;
}

bool atc_plan_writes_outputs(struct atc_plan *plan, const int64_t *output_bytes,
                             struct atc_refusal *refusal)
{
    const size_t n = (size_t)plan->n_outputs;
    uint64_t *ends = calloc(2 * n + 1, sizeof *ends), *sure_ends = ends + n;
    refusal->out_of_memory = false;
    if (ends == NULL)
        return atc_refuse_memory(refusal);
    int64_t sure_from = 0; /* the first task behind all that a condition may skip */
    for (int64_t i = 0; i < plan->n_tasks; i++) {
        const struct atc_task *task = plan->records + i;
        const bool is_sure = i >= sure_from;
        if (is_sure)
            sure_from = i + 1 + controlled_tasks(plan->tasks + i);
        for (int d = task->n_src; d < task->n_src + task->n_dst; d++) {
            const struct atc_slot *slot = task->slots + d;
            if (slot->region != REGION_OUTPUT)
                continue;
            const uint64_t end = slot->offset + slot->bytes;
            if (end > ends[slot->index])
                ends[slot->index] = end;
            if (is_sure && end > sure_ends[slot->index])
                sure_ends[slot->index] = end;
        }
    }
    int64_t output = 0;
    for (; output < plan->n_outputs && ends[output] >= (uint64_t)output_bytes[output]; output++)
        plan->is_cleared[output] = sure_ends[output] < (uint64_t)output_bytes[output];
    free(ends);
    if (output < plan->n_outputs)
        return atc_refuse(refusal, -1, "no task writes output %lld to its end", (long long)output);
    return true;
}

void atc_plan_free(struct atc_plan *plan)
{
    atc_arena_pool_free(&plan->own_arenas);
    free(plan->tasks);
    free(plan->stream_ends);
    free(plan->joins);
    free(plan->records);
    free(plan->is_cleared);
    free(plan);
}

struct atc_arena *atc_plan_take_arena(const struct atc_plan *plan)
{
    const int64_t scratch = atc_mul(plan->scratch_bytes, plan->cpu.threads);
    return atc_arena_take(plan->arenas, atc_add(plan->arena_bytes, scratch));
}
