/* A symbolic plan: task records whose sizes depend on symbols, and the program that computes them.
 *
 * An instance is an ordinary plan: instantiate evaluates the program, patches the records, places
 * the arena's blocks and leaves the judgement of the records to atc_plan_load.
 *
 * Blocks with placements lie where the compiler has planned them for the largest sizes: loading
 * proves that no two that live at the same time overlap, and a size that does not fit its block is
 * refused. Without placements each instance places the blocks for its own sizes (arena.h).
 *
 * The blob, little endian, without padding, every field of 32 bits unless said:
 *
 *     version = 2, n_symbols, n_constants, n_instrs, n_guards, n_patches, n_blocks,
 *     n_placements, n_inputs, n_outputs, n_tasks
 *     symbols    {min, max}, of 64 bits each
 *     constants  64 bits each
 *     instrs     {op, a, b, c}                   program.h
 *     guards     {slot, kind}
 *     patches    {task, offset, slot, kind}      strictly increasing by (task, offset)
 *     blocks     {size slot, first task, last task}
 *     placements {offset, largest size}, of 64 bits each; one for each block, or none
 *     inputs     {bytes slot}
 *     outputs    {bytes slot, rank, a slot for each dim}
 *
 * In the records an operand in the arena has the number of its block as index, and an offset within
 * that block.
 */
#ifndef ATC_SYMBOLIC_H
#define ATC_SYMBOLIC_H

#include "core/plan.h"

enum { ATC_SYMBOLIC_VERSION = 2 };

enum atc_guard_kind {
    GUARD_SELECT = 0,  /* another variant is to be taken where it does not hold */
    GUARD_REQUIRE = 1, /* the inputs are wrong where it does not hold */
};

enum atc_patch_kind {
    PATCH_I64 = 0,
    PATCH_F64 = 1,        /* the value as a double */
    PATCH_RECIPROCAL = 2, /* 1 / the value, which must be positive */
};

struct atc_symbolic;

struct atc_symbolic_sizes {
    int64_t n_symbols, n_inputs, n_outputs, n_dims;
    const uint32_t *ranks; /* of the outputs; n_dims is their sum */
    int64_t arena_bytes;   /* of every instance, or -1: each has its own */
};

/* An instance; the caller gives the room for the sizes. */
struct atc_instance {
    struct atc_plan *plan;
    int64_t *port_bytes; /* of the inputs, then of the outputs */
    int64_t *dims;       /* of the outputs, one after the other */
    int64_t guard;       /* the guard that failed, or -1 */
};

enum atc_instance_status {
    INSTANCE_LOADED = 0,
    INSTANCE_OTHER_VARIANT = 1, /* a SELECT guard fails */
    INSTANCE_REFUSED = 2,
};

/* Checks the blob and what it says of the records; the weights must outlive the plan and the plan
 * its instances, which share its arenas. Returns NULL with the refusal.
 */
struct atc_symbolic *atc_symbolic_load(const uint8_t *blob, size_t blob_bytes,
                                       const uint8_t *records, size_t bytes, const uint8_t *weights,
                                       int64_t weight_bytes, int threads, enum atc_isa isa,
                                       const char *only, struct atc_refusal *refusal);
void atc_symbolic_free(struct atc_symbolic *symbolic);

/* Instances take the arenas of another plan, which must outlive this one, instead of its own. */
void atc_symbolic_share_arenas(struct atc_symbolic *symbolic, const struct atc_symbolic *other);
/* Instances run with these workers; before, with those of all CPUs. */
void atc_symbolic_use_workers(struct atc_symbolic *symbolic, struct atc_workers *workers);
struct atc_symbolic_sizes atc_symbolic_sizes(const struct atc_symbolic *symbolic);

/* Guards count in their order, the first that fails decides; a program that fails is refused only
 * if no guard before the failing instruction does. Threads may call it at the same time.
 */
enum atc_instance_status atc_symbolic_instantiate(struct atc_symbolic *symbolic,
                                                  const int64_t *symbols,
                                                  struct atc_instance *instance,
                                                  struct atc_refusal *refusal);

#endif
