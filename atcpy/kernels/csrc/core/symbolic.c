#include "core/symbolic.h"
#include "core/arena.h"
#include "core/placement.h"
#include "core/program.h"

#include <stdlib.h>
#include <string.h>

/* Where a record of a package has its parts (task.h). */
enum {
    SLOTS_AT = offsetof(struct atc_task, slots),
    PARAMS_AT = offsetof(struct atc_task, params),
};

struct header {
    uint32_t version, n_symbols, n_constants, n_instrs, n_guards, n_patches, n_blocks, n_placements,
        n_inputs, n_outputs, n_tasks;
};

struct symbol {
    int64_t min, max;
};

struct guard {
    uint32_t slot, kind;
};

struct patch {
    uint32_t task, offset, slot, kind;
};

struct block {
    uint32_t size_slot;
    struct atc_lifetime lifetime;
};

/* An operand in the arena; its offset counts from the start of the block. */
struct block_operand {
    uint32_t task, operand, block;
    uint64_t offset; /* as the record has it, for those that no patch sets */
};

struct atc_symbolic {
    struct header header;
    int64_t n_slots, n_dims, n_operands;
    struct symbol *symbols;
    struct atc_instr *instrs;
    struct guard *guards;
    struct patch *patches;
    struct block *blocks;
    struct atc_placement *placements; /* none: instances place the blocks */
    uint32_t *input_slots, *output_slots, *ranks, *dim_slots;
    struct block_operand *operands;
    struct atc_arena_pool own_arenas;
    struct atc_arena_pool *arenas;  /* of all instances: those, or another plan's */
    const struct kernel_row **rows; /* of each task's family; NULL: the host's, or none */
    struct atc_blocks *arena;       /* NULL: the blocks have placements, in arena_bytes bytes */
    int64_t arena_bytes;
    const uint8_t *weights;
    int64_t weight_bytes;
    int threads;
    struct atc_workers *workers;
    enum atc_isa isa;
    char *only;
    /* What instances are built in. */
    pthread_mutex_t lock;
    int64_t *slots; /* values; those of constants stay */
    struct atc_task *records;
    int64_t *block_bytes, *block_offsets;
};

/* --- loading -----------------------------------------------------------------------------------
 */

struct reader {
    const uint8_t *at;
    size_t left;
};

/* A copy of the next n items, or NULL: fewer are left, or no memory. */
static void *read_items(struct reader *reader, size_t n, size_t item, struct atc_refusal *refusal)
{
    if (n > reader->left / item) {
        atc_refuse(refusal, -1, "the symbolic plan is truncated");
        return NULL;
    }
    void *items = malloc(n * item + 1);
    if (items == NULL) {
        atc_refuse_memory(refusal);
        return NULL;
    }
    memcpy(items, reader->at, n * item);
    reader->at += n * item;
    reader->left -= n * item;
    return items;
}

static bool read_outputs(struct atc_symbolic *self, struct reader *reader,
                         struct atc_refusal *refusal)
{
    const size_t words = reader->left / sizeof(uint32_t), n = self->header.n_outputs;
    struct reader all = *reader;
    uint32_t *outputs = read_items(&all, words, sizeof(uint32_t), refusal);
    if (outputs == NULL)
        return false;
    self->output_slots = calloc(n + 1, sizeof(uint32_t));
    self->ranks = calloc(n + 1, sizeof(uint32_t));
    self->dim_slots = calloc(words + 1, sizeof(uint32_t));
    bool ok = self->output_slots != NULL && self->ranks != NULL && self->dim_slots != NULL;
    if (!ok)
        atc_refuse_memory(refusal);
    size_t at = 0;
    for (size_t i = 0; ok && i < n; i++) {
        ok = words - at >= 2 && outputs[at + 1] <= words - at - 2;
        if (!ok) {
            atc_refuse(refusal, -1, "the symbolic plan is truncated");
            break;
        }
        self->output_slots[i] = outputs[at];
        self->ranks[i] = outputs[at + 1];
        memcpy(self->dim_slots + self->n_dims, outputs + at + 2, self->ranks[i] * sizeof(uint32_t));
        self->n_dims += self->ranks[i];
        at += 2 + self->ranks[i];
    }
    free(outputs);
    if (ok && at * sizeof(uint32_t) != reader->left)
        return atc_refuse(refusal, -1, "bytes beyond the symbolic plan's end");
    return ok;
}

static bool read_blob(struct atc_symbolic *self, struct reader reader, size_t record_bytes,
                      struct atc_refusal *refusal)
{
    struct header *header = &self->header;
    if (reader.left < sizeof *header)
        return atc_refuse(refusal, -1, "the symbolic plan is truncated");
    memcpy(header, reader.at, sizeof *header);
    reader.at += sizeof *header;
    reader.left -= sizeof *header;
    if (header->version != ATC_SYMBOLIC_VERSION)
        return atc_refuse(refusal, -1, "version %u of symbolic plans is not known",
                          header->version);
    if (record_bytes % ATC_TASK_BYTES != 0 || header->n_tasks != record_bytes / ATC_TASK_BYTES)
        return atc_refuse(refusal, -1, "%u tasks do not take %zu bytes", header->n_tasks,
                          record_bytes);
    if (header->n_inputs > UINT16_MAX || header->n_outputs > UINT16_MAX ||
        header->n_blocks > UINT16_MAX)
        return atc_refuse(refusal, -1, "too many inputs, outputs or blocks");
    if (header->n_placements != 0 && header->n_placements != header->n_blocks)
        return atc_refuse(refusal, -1, "%u placements of %u blocks", header->n_placements,
                          header->n_blocks);

    const size_t first = (size_t)header->n_symbols + header->n_constants;
    if (first > reader.left / sizeof(int64_t) ||
        header->n_instrs > reader.left / sizeof(struct atc_instr))
        return atc_refuse(refusal, -1, "the symbolic plan is truncated");
    self->n_slots = (int64_t)(first + header->n_instrs);
    self->slots = calloc((size_t)self->n_slots + 1, sizeof *self->slots);
    if (self->slots == NULL)
        return atc_refuse_memory(refusal);
    self->symbols = read_items(&reader, header->n_symbols, sizeof *self->symbols, refusal);
    if (self->symbols == NULL)
        return false;
    int64_t *constants = read_items(&reader, header->n_constants, sizeof *constants, refusal);
    if (constants == NULL)
        return false;
    memcpy(self->slots + header->n_symbols, constants, header->n_constants * sizeof *constants);
    free(constants);
    self->instrs = read_items(&reader, header->n_instrs, sizeof *self->instrs, refusal);
    if (self->instrs == NULL)
        return false;
    self->guards = read_items(&reader, header->n_guards, sizeof *self->guards, refusal);
    if (self->guards == NULL)
        return false;
    self->patches = read_items(&reader, header->n_patches, sizeof *self->patches, refusal);
    if (self->patches == NULL)
        return false;
    self->blocks = read_items(&reader, header->n_blocks, sizeof *self->blocks, refusal);
    if (self->blocks == NULL)
        return false;
    self->placements = read_items(&reader, header->n_placements, sizeof *self->placements, refusal);
    if (self->placements == NULL)
        return false;
    self->input_slots = read_items(&reader, header->n_inputs, sizeof *self->input_slots, refusal);
    return self->input_slots != NULL && read_outputs(self, &reader, refusal);
}

static bool slots_ok(const struct atc_symbolic *self, const uint32_t *slots, int64_t n,
                     const char *what, struct atc_refusal *refusal)
{
    for (int64_t i = 0; i < n; i++)
        if (slots[i] >= self->n_slots)
            return atc_refuse(refusal, -1, "%s %lld: no such slot", what, (long long)i);
    return true;
}

/* The field of the family that lies at byte `offset` of the arguments, or NULL. */
static const struct param_field *field_at(const struct kernel_family *family, uint32_t offset)
{
    for (const struct param_field *field = family->fields; field->name; field++) {
        const uint32_t bytes = (uint32_t)field->count * 8;
        if (offset < bytes)
            return field;
        offset -= bytes;
    }
    return NULL;
}

/* True if the patch sets the offset or the size of an operand, or a number of the arguments. */
static bool patch_ok(const struct patch *patch, const struct atc_task *task,
                     const struct kernel_row *rows)
{
    if (patch->offset >= SLOTS_AT && patch->offset < PARAMS_AT) {
        const size_t number = (patch->offset - SLOTS_AT) / sizeof(struct atc_slot);
        const size_t within = (patch->offset - SLOTS_AT) % sizeof(struct atc_slot);
        return patch->kind == PATCH_I64 && number < (size_t)(task->n_src + task->n_dst) &&
               task->slots[number].region != REGION_NONE &&
               (within == offsetof(struct atc_slot, offset) ||
                within == offsetof(struct atc_slot, bytes));
    }
    if (patch->offset < PARAMS_AT || patch->offset % 8 != 0 || rows == NULL)
        return false;
    const struct param_field *field = field_at(rows->family, patch->offset - PARAMS_AT);
    return field != NULL && field->choices == NULL && patch->kind <= PATCH_RECIPROCAL &&
           field->is_float == (patch->kind != PATCH_I64);
}

static bool find_rows(struct atc_symbolic *self, struct atc_refusal *refusal)
{
    self->rows = calloc((size_t)self->header.n_tasks + 1, sizeof *self->rows);
    if (self->rows == NULL)
        return atc_refuse_memory(refusal);
    for (uint32_t t = 0; t < self->header.n_tasks; t++)
        if (memchr(self->records[t].family, 0, ATC_FAMILY_BYTES) != NULL)
            self->rows[t] = atc_find_rows(self->records[t].family);
    return true;
}

static bool check_patches(const struct atc_symbolic *self, struct atc_refusal *refusal)
{
    for (uint32_t i = 0; i < self->header.n_patches; i++) {
        const struct patch *patch = self->patches + i;
        if (patch->task >= self->header.n_tasks || patch->slot >= self->n_slots ||
            !patch_ok(patch, self->records + patch->task, self->rows[patch->task]))
            return atc_refuse(refusal, -1, "patch %u: no such field or value", i);
        if (i > 0 && (patch->task < patch[-1].task ||
                      (patch->task == patch[-1].task && patch->offset <= patch[-1].offset)))
            return atc_refuse(refusal, -1, "patch %u is out of order", i);
    }
    return true;
}

/* Lists the operands in the arena; each lies in a block that lives at its task. */
static bool find_operands(struct atc_symbolic *self, struct atc_refusal *refusal)
{
    self->operands =
        calloc((size_t)self->header.n_tasks * ATC_MAX_SLOTS + 1, sizeof *self->operands);
    if (self->operands == NULL)
        return atc_refuse_memory(refusal);
    for (uint32_t t = 0; t < self->header.n_tasks; t++) {
        struct atc_task *task = self->records + t;
        if (task->n_src + task->n_dst > ATC_MAX_SLOTS)
            return atc_refuse(refusal, t, "malformed record");
        for (uint32_t k = 0; k < (uint32_t)(task->n_src + task->n_dst); k++) {
            struct atc_slot *slot = task->slots + k;
            if (slot->region != REGION_ARENA)
                continue;
            if (slot->index >= self->header.n_blocks ||
                self->blocks[slot->index].lifetime.first > t ||
                self->blocks[slot->index].lifetime.last < t)
                return atc_refuse(refusal, t, "operand %u: no block that lives here", k);
            self->operands[self->n_operands++] =
                (struct block_operand){t, k, slot->index, slot->offset};
            slot->index = 0;
        }
    }
    return true;
}

static bool is_placed(const struct atc_symbolic *self)
{
    return self->header.n_placements == self->header.n_blocks;
}

/* Fixes the arena if the blocks have placements, or prepares what instances place them with. */
static bool make_arena(struct atc_symbolic *self, struct atc_refusal *refusal)
{
    const int64_t n = self->header.n_blocks, n_tasks = self->header.n_tasks;
    struct atc_lifetime *lifetimes = calloc((size_t)n + 1, sizeof *lifetimes);
    self->block_bytes = calloc((size_t)n + 1, sizeof *self->block_bytes);
    self->block_offsets = calloc((size_t)n + 1, sizeof *self->block_offsets);
    bool ok = lifetimes != NULL && self->block_bytes != NULL && self->block_offsets != NULL;
    if (!ok)
        atc_refuse_memory(refusal);
    for (int64_t i = 0; ok && i < n; i++) {
        lifetimes[i] = self->blocks[i].lifetime;
        ok = slots_ok(self, &self->blocks[i].size_slot, 1, "block", refusal);
    }
    if (ok && is_placed(self)) {
        for (int64_t i = 0; i < n; i++)
            self->block_offsets[i] = self->placements[i].offset;
        self->arena_bytes = atc_placements_check(self->placements, lifetimes, n, n_tasks, refusal);
        ok = self->arena_bytes >= 0;
    } else if (ok) {
        self->arena = atc_blocks_new(lifetimes, n, n_tasks, refusal);
        ok = self->arena != NULL;
    }
    free(lifetimes);
    return ok;
}

static bool check(struct atc_symbolic *self, struct atc_refusal *refusal)
{
    const struct header *header = &self->header;
    for (uint32_t i = 0; i < header->n_symbols; i++)
        if (self->symbols[i].min > self->symbols[i].max)
            return atc_refuse(refusal, -1, "symbol %u has no values", i);
    for (uint32_t i = 0; i < header->n_guards; i++)
        if (self->guards[i].kind > GUARD_REQUIRE || self->guards[i].slot >= self->n_slots)
            return atc_refuse(refusal, -1, "guard %u: no such kind or slot", i);
    return atc_program_check(self->instrs, header->n_instrs,
                             (int64_t)header->n_symbols + header->n_constants, refusal) &&
           slots_ok(self, self->input_slots, header->n_inputs, "input", refusal) &&
           slots_ok(self, self->output_slots, header->n_outputs, "output", refusal) &&
           slots_ok(self, self->dim_slots, self->n_dims, "output dim", refusal) &&
           find_operands(self, refusal) && find_rows(self, refusal) &&
           check_patches(self, refusal) && make_arena(self, refusal);
}

struct atc_symbolic *atc_symbolic_load(const uint8_t *blob, size_t blob_bytes,
                                       const uint8_t *records, size_t bytes, const uint8_t *weights,
                                       int64_t weight_bytes, int threads, enum atc_isa isa,
                                       const char *only, struct atc_refusal *refusal)
{
    refusal->out_of_memory = false;
    struct atc_symbolic *self = calloc(1, sizeof *self);
    if (self == NULL) {
        atc_refuse_memory(refusal);
        return NULL;
    }
    pthread_mutex_init(&self->lock, NULL);
    atc_arena_pool_init(&self->own_arenas);
    self->arenas = &self->own_arenas;
    self->weights = weights;
    self->weight_bytes = weight_bytes;
    self->threads = threads;
    self->workers = atc_all_workers();
    self->isa = isa;
    self->only = only == NULL ? NULL : strdup(only);
    self->records = malloc(bytes + 1);
    bool ok = self->records != NULL && (only == NULL || self->only != NULL);
    if (!ok)
        atc_refuse_memory(refusal);
    else if (bytes > 0)
        memcpy(self->records, records, bytes);
    ok = ok && read_blob(self, (struct reader){blob, blob_bytes}, bytes, refusal) &&
         check(self, refusal);
    if (ok)
        return self;
    atc_symbolic_free(self);
    return NULL;
}

void atc_symbolic_share_arenas(struct atc_symbolic *symbolic, const struct atc_symbolic *other)
{
    symbolic->arenas = other->arenas;
}

void atc_symbolic_use_workers(struct atc_symbolic *symbolic, struct atc_workers *workers)
{
    symbolic->workers = workers;
}

void atc_symbolic_free(struct atc_symbolic *self)
{
    if (self->arena != NULL)
        atc_blocks_free(self->arena);
    atc_arena_pool_free(&self->own_arenas);
    pthread_mutex_destroy(&self->lock);
    free(self->symbols);
    free(self->instrs);
    free(self->guards);
    free(self->patches);
    free(self->blocks);
    free(self->placements);
    free(self->input_slots);
    free(self->output_slots);
    free(self->ranks);
    free(self->dim_slots);
    free(self->operands);
    free(self->rows);
    free(self->only);
    free(self->slots);
    free(self->records);
    free(self->block_bytes);
    free(self->block_offsets);
    free(self);
}

struct atc_symbolic_sizes atc_symbolic_sizes(const struct atc_symbolic *self)
{
    return (struct atc_symbolic_sizes){
        self->header.n_symbols, self->header.n_inputs, self->header.n_outputs,
        self->n_dims,           self->ranks,           is_placed(self) ? self->arena_bytes : -1};
}

/* --- instances ---------------------------------------------------------------------------------
 */

/* The values of slots, each a number of bytes or a dim. */
static bool read_sizes(const struct atc_symbolic *self, const uint32_t *slots, int64_t n,
                       const char *what, int64_t *sizes, struct atc_refusal *refusal)
{
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = self->slots[slots[i]];
        if (sizes[i] < 0 || sizes[i] >= ATC_TOO_BIG)
            return atc_refuse(refusal, -1, "%s %lld: %lld is no size", what, (long long)i,
                              (long long)sizes[i]);
    }
    return true;
}

static enum atc_instance_status evaluate(struct atc_symbolic *self, const int64_t *symbols,
                                         struct atc_instance *instance, struct atc_refusal *refusal)
{
    const struct header *header = &self->header;
    for (uint32_t i = 0; i < header->n_symbols; i++) {
        const struct symbol *symbol = self->symbols + i;
        if (symbols[i] < symbol->min || symbols[i] > symbol->max) {
            atc_refuse(refusal, -1, "symbol %u is %lld, not in %lld to %lld", i,
                       (long long)symbols[i], (long long)symbol->min, (long long)symbol->max);
            return INSTANCE_REFUSED;
        }
        self->slots[i] = symbols[i];
    }
    const int64_t first = (int64_t)header->n_symbols + header->n_constants;
    const int64_t done = atc_program_run(self->instrs, header->n_instrs, first, self->slots);
    for (uint32_t i = 0; i < header->n_guards; i++) {
        const struct guard *guard = self->guards + i;
        if (guard->slot >= first + done || self->slots[guard->slot] != 0)
            continue;
        instance->guard = i;
        if (guard->kind == GUARD_SELECT)
            return INSTANCE_OTHER_VARIANT;
        atc_refuse(refusal, -1, "requirement %u does not hold", i);
        return INSTANCE_REFUSED;
    }
    if (done == header->n_instrs)
        return INSTANCE_LOADED;
    atc_program_refuse(self->instrs, done, self->slots, refusal);
    return INSTANCE_REFUSED;
}

static bool apply_patches(struct atc_symbolic *self, struct atc_refusal *refusal)
{
    for (uint32_t i = 0; i < self->header.n_patches; i++) {
        const struct patch *patch = self->patches + i;
        uint8_t *field = (uint8_t *)(self->records + patch->task) + patch->offset;
        const int64_t value = self->slots[patch->slot];
        if ((patch->offset < PARAMS_AT && value < 0) ||
            (patch->kind == PATCH_RECIPROCAL && value <= 0))
            return atc_refuse(refusal, patch->task, "patch %u: a value of %lld", i,
                              (long long)value);
        if (patch->kind == PATCH_I64) {
            memcpy(field, &value, sizeof value);
        } else {
            const double real = patch->kind == PATCH_F64 ? (double)value : 1.0 / (double)value;
            memcpy(field, &real, sizeof real);
        }
    }
    return true;
}

/* The bytes of the arena in which the blocks of this instance lie, or -1 with the refusal. */
static int64_t place_blocks(struct atc_symbolic *self, struct atc_refusal *refusal)
{
    for (uint32_t i = 0; i < self->header.n_blocks; i++) {
        const int64_t bytes = self->slots[self->blocks[i].size_slot];
        const int64_t max_bytes = is_placed(self) ? self->placements[i].max_bytes : ATC_TOO_BIG - 1;
        if (bytes < 0 || bytes > max_bytes) {
            atc_refuse(refusal, -1, "bytes of block %u: %lld is no size up to %lld", i,
                       (long long)bytes, (long long)max_bytes);
            return -1;
        }
        self->block_bytes[i] = bytes;
    }
    if (is_placed(self))
        return self->arena_bytes;
    const int64_t arena_bytes =
        atc_blocks_place(self->arena, self->block_bytes, self->block_offsets);
    if (arena_bytes < ATC_TOO_BIG)
        return arena_bytes;
    atc_refuse(refusal, -1, "the blocks need 2^47 bytes or more");
    return -1;
}

/* Moves the operands to where the blocks lie. */
static bool place_operands(struct atc_symbolic *self, struct atc_refusal *refusal)
{
    for (int64_t i = 0; i < self->n_operands; i++) {
        const struct block_operand *operand = self->operands + i;
        struct atc_slot *slot = self->records[operand->task].slots + operand->operand;
        const uint64_t room = (uint64_t)self->block_bytes[operand->block];
        if (slot->offset > room || slot->bytes > room - slot->offset)
            return atc_refuse(refusal, operand->task, "operand %u reaches beyond its block",
                              operand->operand);
        slot->offset += (uint64_t)self->block_offsets[operand->block];
    }
    return true;
}

static bool load(struct atc_symbolic *self, struct atc_instance *instance,
                 struct atc_refusal *refusal)
{
    const struct header *header = &self->header;
    int64_t *output_bytes = instance->port_bytes + header->n_inputs;
    if (!read_sizes(self, self->input_slots, header->n_inputs, "bytes of input",
                    instance->port_bytes, refusal) ||
        !read_sizes(self, self->output_slots, header->n_outputs, "bytes of output", output_bytes,
                    refusal) ||
        !read_sizes(self, self->dim_slots, self->n_dims, "output dim", instance->dims, refusal))
        return false;
    const int64_t arena_bytes = place_blocks(self, refusal);
    if (arena_bytes < 0)
        return false;
    /* Undo what the instance before this one did; patches are written again anyway. */
    for (int64_t i = 0; i < self->n_operands; i++)
        self->records[self->operands[i].task].slots[self->operands[i].operand].offset =
            self->operands[i].offset;
    if (!apply_patches(self, refusal) || !place_operands(self, refusal))
        return false;
    const struct atc_limits limits = {.arena_bytes = arena_bytes,
                                      .weight_bytes = self->weight_bytes,
                                      .n_inputs = header->n_inputs,
                                      .n_outputs = header->n_outputs,
                                      .input_bytes = instance->port_bytes,
                                      .output_bytes = output_bytes};
    instance->plan = atc_plan_load(
        (const uint8_t *)self->records, (size_t)header->n_tasks * ATC_TASK_BYTES, self->weights,
        self->rows, &limits, self->threads, self->isa, self->only, refusal);
    if (instance->plan == NULL)
        return false;
    instance->plan->arenas = self->arenas;
    instance->plan->workers = self->workers;
    if (atc_plan_writes_outputs(instance->plan, output_bytes, refusal))
        return true;
    atc_plan_free(instance->plan);
    instance->plan = NULL;
    return false;
}

enum atc_instance_status atc_symbolic_instantiate(struct atc_symbolic *self, const int64_t *symbols,
                                                  struct atc_instance *instance,
                                                  struct atc_refusal *refusal)
{
    refusal->out_of_memory = false;
    instance->plan = NULL;
    instance->guard = -1;
    pthread_mutex_lock(&self->lock);
    enum atc_instance_status status = evaluate(self, symbols, instance, refusal);
    if (status == INSTANCE_LOADED && !load(self, instance, refusal))
        status = INSTANCE_REFUSED;
    pthread_mutex_unlock(&self->lock);
    return status;
}
