/* What a kernel is to the rest: a family with its argument struct and checker, and rows that
 * implement it, one per dtype and ISA. Kernels know neither Python nor threads; they allocate
 * nothing and keep no state.
 */
#ifndef ATC_KERNEL_H
#define ATC_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/checked.h"
#include "core/stop.h"
#include "core/task.h"

/* What the architecture has, each with all that those before it have. But CPUs with AVX-512 may
 * lack AVX-VNNI, so rows for AVX-VNNI run at that level alone: atc_isa_runs. A family that has one
 * has rows for AVX-512 before it.
 */
enum atc_isa {
    ISA_SCALAR,
#ifdef ATC_X86
    ISA_SSE2, /* each CPU has it */
    ISA_AVX2,
    ISA_AVXVNNI,    /* AVX2 and products of bytes and of 16 bits, in vectors of 256 bits */
    ISA_AVX512F,    /* with BW, DQ and VL */
    ISA_AVX512VNNI, /* AVX512F and products of bytes */
    ISA_AVX512BF16, /* AVX512VNNI and products of bfloat16 */
    ISA_AMX,        /* AVX512BF16 and tiles of bytes and of bfloat16 */
#endif
#ifdef ATC_ARM64
    ISA_NEON,    /* each CPU has it */
    ISA_NEONDOT, /* NEON and dot products of bytes: FEAT_DotProd of Armv8.2 */
#endif
    ISA_COUNT,
};

/* The CPU that this process runs on, and how much of it a plan takes. */
struct atc_cpu {
    enum atc_isa isa; /* the best that it has, or what ATCPY_ISA lowers it to */
    int64_t l1_bytes;
    int64_t l2_bytes;
    int threads; /* that share the items of a task, at most */
};

/* How many items a task should have so that threads end at about the same time: `least` of them,
 * or some for each thread.
 */
static inline int64_t atc_min_items(const struct atc_cpu *cpu, int64_t least)
{
    enum { ITEMS_PER_THREAD = 4 };
    const int64_t items = (int64_t)cpu->threads * ITEMS_PER_THREAD;
    return items > least ? items : least;
}

/* A value met at run time that breaks the op's rule; the first one stays. */
struct atc_fault {
    atomic_int code; /* enum atc_fault_code */
    int64_t value;
    int64_t bound;
};

enum atc_fault_code {
    FAULT_NONE = 0,
    FAULT_INDEX_OUTSIDE = 1,
    FAULT_DIVISION_BY_ZERO = 2,
    FAULT_ENDLESS = 3,   /* a loop without a trip count; `bound` is the most iterations */
    FAULT_PARAMETER = 4, /* a parameter that an input holds; `bound` is the byte where it begins */
};

/* Words for what the scratch holds: a number of the family's for what it prepared of the inputs,
 * and a set of parts of the weights. Zero: nothing.
 */
enum { KEPT_INPUTS, KEPT_WEIGHTS, ATC_KEPT };

/* One call of a kernel: work items [begin, end) of those that the family counts. Which items a
 * call gets never changes a result.
 */
struct kernel_args {
    const void *src[ATC_MAX_SLOTS]; /* NULL where an optional operand is left out */
    void *dst[ATC_MAX_SLOTS];
    const void *params; /* the family's struct */
    void *scratch;      /* of the family's scratch size, private to this call, 64-byte aligned */
    /* ATC_KEPT words, zero in the first call of a thread for a launch. The scratch and they stay
     * for its next calls, which need not prepare again what several items share.
     */
    uint64_t *kept;
    const struct atc_cpu *cpu;
    struct atc_fault *fault;
    uint64_t entropy; /* of families that draw: another number in each launch */
    int64_t begin, end;
    struct atc_stop *stop; /* or NULL */
    int thread;            /* 0: the one that called the run */
};

/* Notes that the scratch holds inputs number `number`, as the family counts what it prepares; true
 * if it did before, so that there is nothing to prepare.
 */
static inline bool atc_keeps_inputs(const struct kernel_args *args, int64_t number)
{
    const uint64_t mark = (uint64_t)number + 1;
    const bool holds = args->kept[KEPT_INPUTS] == mark;
    args->kept[KEPT_INPUTS] = mark;
    return holds;
}

/* Whether the call is to end, whatever it leaves unwritten. Kernels with items that may take long
 * ask it between pieces of a millisecond or less, by core/pieces.h; between items the executor
 * does.
 */
static inline bool atc_stopped(const struct kernel_args *args)
{
    if (args->stop == NULL)
        return false;
    return args->thread == 0 ? atc_ask_stop(args->stop) : atc_is_stopped(args->stop);
}

/* The symbol of the instruction set that a file is compiled for; meson.build defines ATC_ISA. */
#define ISA_PASTE(symbol, isa)  symbol##_##isa
#define ISA_SYMBOL(symbol, isa) ISA_PASTE(symbol, isa)
#define FOR_ISA(symbol)         ISA_SYMBOL(symbol, ATC_ISA)
/* That of loops which the compiler makes vectors of: where each CPU has the instructions, it uses
 * them for the scalar rows already.
 */
#define LOOPS_FOR_ISA(symbol) ISA_SYMBOL(symbol, ATC_LOOPS_ISA)
/* That of code on the names of simd/vector.h: what extends AVX-512 uses that of AVX-512. */
#define VECTORS_FOR_ISA(symbol) ISA_SYMBOL(symbol, ATC_VECTORS_ISA)

typedef void (*kernel_fn)(const struct kernel_args *args);

/* A record's operands and arguments as a checker sees them. */
struct task_view {
    const struct atc_slot *src, *dst;
    int n_src, n_dst;
    const void *params;
    const uint8_t *weights; /* the constants of the package; NULL unless .reads_constants */
    /* Where atc_holds notes how many bytes of each operand the kernel may touch, those of the
     * destinations after those of the sources, as the operands lie then; or NULL.
     */
    int64_t *extents;
    int64_t *read; /* where atc_constant adds the bytes that the checker may read of them */
};

struct param_field {
    const char *name;
    bool is_float; /* double, else int64_t */
    int count;
    const char *const *choices; /* an enum's names, ended by NULL; the field holds an index */
};

/* What a checked task costs on a CPU. The loader refuses what takes too much of it for its
 * operands, so that items and work together bound the time: no loop of a kernel may run more often
 * than they say, but for a small factor.
 */
struct kernel_cost {
    int64_t items;   /* independent pieces; results do not depend on how threads share them */
    int64_t work;    /* rough number of element operations: does waking other threads pay? */
    int64_t scratch; /* bytes of scratch that each call needs */
};

/* Whether a record decides which tasks run, instead of running a kernel: control.h. */
enum atc_control {
    CONTROL_NONE = 0,
    CONTROL_IF = 1,
    CONTROL_LOOP = 2,
    CONTROL_STREAMS = 3,
};

struct kernel_family {
    const char *name;
    const struct param_field *fields; /* ends with a NULL name */
    /* The only place that trusts nothing. Returns NULL, or why a task must not run. */
    const char *(*check)(const struct task_view *task);
    struct kernel_cost (*cost)(const void *params, const struct atc_cpu *cpu);
    /* How many products of two elements a task sums, by the definition of its op: padding counts,
     * what a kernel adds of its own does not. NULL: a family that sums none. For profiles alone.
     */
    int64_t (*products)(const void *params);
    /* Bit i: destination 0 may be the very memory of source i. */
    uint32_t inplace;
    /* The checker reads constants, by atc_constant: a loader whose constants lie in a file that
     * others may write to copies them before, so that what was checked is what runs.
     */
    bool reads_constants;
    bool draws; /* results may differ from launch to launch, by kernel_args.entropy */
    enum atc_control control;
};

struct kernel_row {
    const char *symbol;
    kernel_fn fn;
    const struct kernel_family *family;
    enum atc_dtype dtype; /* of source 0; DTYPE_ANY: every one that the checker admits */
    enum atc_isa isa;
    /* Further conditions of this row alone; NULL: none. */
    bool (*fits)(const struct task_view *task);
};

extern const struct kernel_row kernel_table[];
extern const int kernel_table_rows;

/* The first row of the family of that name, whose rows follow each other, or NULL. */
const struct kernel_row *atc_find_rows(const char *name);

/* Argument structs are declared from a list of fields, which Python reads to fill them by name:
 *
 *     #define CLIP_FIELDS(I64, I64S, F64, ENUM) I64(n) I64S(dims, 8) F64(low) ENUM(op, unary_names)
 *     DECLARE_PARAMS(clip, CLIP_FIELDS)
 *
 * An ENUM is an index into a NULL-ended list of names; Python passes the name, and the loader
 * refuses an index beyond the list before the family's checker sees it.
 */
#define PARAM_I64(name)           int64_t name;
#define PARAM_I64S(name, count)   int64_t name[count];
#define PARAM_F64(name)           double name;
#define PARAM_ENUM(name, choices) int64_t name;
#define DECLARE_PARAMS(family, FIELDS)                                                             \
    struct family##_params {                                                                       \
        FIELDS(PARAM_I64, PARAM_I64S, PARAM_F64, PARAM_ENUM)                                       \
    };                                                                                             \
    static_assert(sizeof(struct family##_params) <= ATC_PARAM_BYTES, #family " arguments fit");

#define FIELD_I64(name)           {#name, false, 1, NULL},
#define FIELD_I64S(name, count)   {#name, false, count, NULL},
#define FIELD_F64(name)           {#name, true, 1, NULL},
#define FIELD_ENUM(name, choices) {#name, false, 1, choices},
/* The family's record; what follows the fields are further members of struct kernel_family. */
#define DEFINE_FAMILY(family, FIELDS, ...)                                                         \
    static const struct param_field family##_fields[] = {                                          \
        FIELDS(FIELD_I64, FIELD_I64S, FIELD_F64, FIELD_ENUM){NULL, false, 0, NULL}};               \
    const struct kernel_family family_##family = {                                                 \
        .name = #family, .fields = family##_fields, __VA_ARGS__}

/* True if a slot of the task has the dtype and room for `elements` of `item` bytes. This is the
 * extent of the operand: what no checker asked for, no kernel may touch.
 */
static inline bool atc_holds(const struct task_view *task, const struct atc_slot *slot,
                             enum atc_dtype dtype, int64_t elements, int64_t item)
{
    const int64_t bytes = atc_mul(elements, item);
    if (task->extents != NULL) {
        int64_t *extent = task->extents + (slot - task->src);
        *extent = *extent > bytes ? *extent : bytes;
    }
    return slot->region != REGION_NONE && (dtype == DTYPE_ANY || slot->dtype == dtype) &&
           bytes < ATC_TOO_BIG && (uint64_t)bytes <= slot->bytes;
}

/* atc_holds for a source that may be left out. */
static inline bool atc_holds_optional(const struct task_view *task, int source,
                                      enum atc_dtype dtype, int64_t elements, int64_t item)
{
    return task->n_src <= source || task->src[source].region == REGION_NONE ||
           atc_holds(task, task->src + source, dtype, elements, item);
}

/* True if two operands begin at the same byte of memory. */
static inline bool atc_same_memory(const struct atc_slot *a, const struct atc_slot *b)
{
    return a->region == b->region && a->index == b->index && a->offset == b->offset;
}

/* Where a source lies that is a constant of the package and is read by the checker, once its size
 * is checked; NULL for any other: what inputs and tasks write cannot be checked ahead.
 */
static inline const void *atc_constant(const struct task_view *task, int source)
{
    const struct atc_slot *slot = task->src + source;
    if (slot->region != REGION_WEIGHTS)
        return NULL;
    assert(task->weights != NULL); /* or it has no bytes, too few for any checker */
    *task->read = atc_add(*task->read, (int64_t)slot->bytes);
    return task->weights + slot->offset;
}

/* True if every one of n sizes lies in [min, ATC_TOO_BIG). */
static inline bool atc_sizes_ok(const int64_t *sizes, int n, int64_t min)
{
    for (int i = 0; i < n; i++)
        if (sizes[i] < min || sizes[i] >= ATC_TOO_BIG)
            return false;
    return true;
}

#define ATC_SIZES_OK(min, ...)                                                                     \
    atc_sizes_ok((const int64_t[]){__VA_ARGS__},                                                   \
                 (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), min)

/* True if there are at most ATC_MAX_RANK dims, each is a size, and so is every product of the first
 * ones: kernels multiply from the left, and one of those that follow may be 0.
 */
static inline bool atc_dims_ok(const int64_t *dims, int64_t rank)
{
    if (rank < 0 || rank > ATC_MAX_RANK || !atc_sizes_ok(dims, (int)rank, 0))
        return false;
    for (int64_t i = 0, elements = 1; i < rank; i++)
        if ((elements = atc_mul(elements, dims[i])) >= ATC_TOO_BIG)
            return false;
    return true;
}

/* Bytes of one element, or 0 for a type that kernels do not know or whose elements share bytes. */
static inline int64_t atc_item_bytes(int dtype)
{
    switch (dtype) {
    case DTYPE_U8:
    case DTYPE_I8:
    case DTYPE_BOOL:
    case DTYPE_F8E4M3FN:
    case DTYPE_F8E4M3FNUZ:
    case DTYPE_F8E5M2:
    case DTYPE_F8E5M2FNUZ:
    case DTYPE_F8E8M0:
        return 1;
    case DTYPE_U16:
    case DTYPE_I16:
    case DTYPE_F16:
    case DTYPE_BF16:
        return 2;
    case DTYPE_F32:
    case DTYPE_I32:
    case DTYPE_U32:
        return 4;
    case DTYPE_F64:
    case DTYPE_I64:
    case DTYPE_U64:
    case DTYPE_C64:
        return 8;
    case DTYPE_C128:
        return 16;
    default:
        return 0;
    }
}

/* True for the sizes in bytes of elements that are only moved. */
static inline bool atc_is_item(int64_t item)
{
    return item == 1 || item == 2 || item == 4 || item == 8 || item == 16;
}

/* True for the types that kernels compare and compute with one by one: no float of 8 bits, nothing
 * complex. */
static inline bool atc_is_number(int dtype)
{
    return (dtype >= DTYPE_F32 && dtype <= DTYPE_I64) ||
           (dtype >= DTYPE_BOOL && dtype <= DTYPE_U64) || dtype == DTYPE_BF16;
}

/* Notes a fault unless one is noted already; the kernel goes on or returns, as it likes. */
static inline void atc_note_fault(struct atc_fault *fault, enum atc_fault_code code, int64_t value,
                                  int64_t bound)
{
    int none = FAULT_NONE;
    if (atomic_compare_exchange_strong(&fault->code, &none, (int)code)) {
        fault->value = value;
        fault->bound = bound;
    }
}

#endif
