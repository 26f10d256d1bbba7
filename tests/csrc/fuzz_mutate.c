#include "fuzz_mutate.h"

#include <math.h>
#include <string.h>

struct fuzz_family fuzz_family_of(const struct kernel_row *rows)
{
    struct fuzz_family f = {.family = rows->family, .rows = rows};
    for (const struct param_field *field = rows->family->fields; field->name; field++)
        for (int i = 0; i < field->count; i++, f.n_fields++) {
            f.names[f.n_fields] = field->name;
            f.is_float[f.n_fields] = field->is_float;
            while (field->choices != NULL && field->choices[f.choices[f.n_fields]] != NULL)
                f.choices[f.n_fields]++;
        }
    return f;
}

void fuzz_spread_operands(struct atc_task *task)
{
    int64_t is_of[ATC_MAX_SLOTS];
    const int n = task->n_src + task->n_dst;
    for (int i = 0; i < n; i++) {
        is_of[i] = i;
        for (int s = 0; i == task->n_src && s < task->n_src; s++)
            if (task->slots[s].region == REGION_ARENA && task->slots[i].region == REGION_ARENA &&
                atc_same_memory(task->slots + i, task->slots + s))
                is_of[i] = s;
    }
    for (int i = 0; i < n; i++) {
        struct atc_slot *slot = task->slots + i;
        if (slot->region == REGION_NONE || slot->region == REGION_WEIGHTS)
            continue;
        slot->region = REGION_ARENA;
        slot->index = 0;
        slot->reserved = 0;
        slot->offset = (uint64_t)(is_of[i] * OPERAND_STEP);
        slot->bytes = OPERAND_BYTES;
    }
}

/* --- numbers --------------------------------------------------------------------------------- */

static int64_t read_field(const struct fuzz_launch *launch, int field)
{
    int64_t value;
    memcpy(&value, launch->task.params + 8 * field, sizeof value);
    return value;
}

static void write_field(struct fuzz_launch *launch, int field, int64_t value)
{
    memcpy(launch->task.params + 8 * field, &value, sizeof value);
}

static int64_t wrapping_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t wrapping_product(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Sizes at the edges of types, of vectors and of what may overflow: 4194305 · 4194305 ·
 * 211106198978564 wraps to 4.
 */
static int64_t edge_value(void)
{
    static const int64_t small[] = {0, 1, 2, 3, 4, 5, 7, 8, 11, 13, 15, 16, 17, 31, 32, 33};
    static const int64_t large[] = {-1,          -2,
                                    64,          65,
                                    127,         256,
                                    1024,        4096,
                                    1LL << 16,   4194305,
                                    INT32_MAX,   1LL << 31,
                                    1LL << 32,   1LL << 40,
                                    1LL << 46,   ATC_TOO_BIG - 1,
                                    ATC_TOO_BIG, 211106198978564,
                                    1LL << 62,   INT64_MAX,
                                    INT64_MIN};
    if (fuzz_any(4) != 0)
        return small[fuzz_any(sizeof small / sizeof small[0])];
    return large[fuzz_any(sizeof large / sizeof large[0])];
}

static double edge_real(void)
{
    static const double edges[] = {0,   1,    -1,    0.5,      2,         3,     -0.5, 1e-3,
                                   100, 1e30, -1e30, INFINITY, -INFINITY, 1e-40, 1e9,  0.25};
    const uint64_t number = fuzz_any(sizeof edges / sizeof edges[0] + 1);
    return number < sizeof edges / sizeof edges[0] ? edges[number] : NAN;
}

static int any_field(const struct fuzz_family *f)
{
    return (int)fuzz_any((uint64_t)f->n_fields);
}

/* What an integer field may become, from its value and those of its neighbours. */
static int64_t near_value(const struct fuzz_launch *launch, const struct fuzz_family *f, int field)
{
    const int64_t value = read_field(launch, field);
    const int near = (field + 1 + (int)fuzz_any(3)) % f->n_fields;
    const int64_t a = read_field(launch, any_field(f)), b = read_field(launch, near);
    switch (fuzz_any(10)) {
    case 0:
    case 1:
        return wrapping_sum(value, 1);
    case 2:
    case 3:
        return wrapping_sum(value, -1);
    case 4:
        return fuzz_any(2) ? wrapping_product(value, 2) : value / 2;
    case 5:
        return wrapping_sum(a, b);
    case 6:
        return wrapping_product(a, b);
    case 7:
        return a;
    case 8:
        return b;
    default:
        return fuzz_any(4) ? wrapping_sum(value, -(int64_t)fuzz_any(16))
                           : wrapping_product(value, -1);
    }
}

/* --- changes --------------------------------------------------------------------------------- */

static void change_field(struct fuzz_launch *launch, const struct fuzz_family *f)
{
    const int field = any_field(f);
    if (f->is_float[field]) {
        const double real = edge_real();
        memcpy(launch->task.params + 8 * field, &real, sizeof real);
    } else if (f->choices[field] > 0) {
        const uint64_t n = (uint64_t)f->choices[field];
        write_field(launch, field, fuzz_any(16) ? (int64_t)fuzz_any(n) : (int64_t)n);
    } else {
        write_field(launch, field, fuzz_any(3) ? near_value(launch, f, field) : edge_value());
    }
}

/* Sizes that are equal mostly belong together: all of them, or all sizes and another that their
 * product is.
 */
static void change_equal_fields(struct fuzz_launch *launch, const struct fuzz_family *f)
{
    const int field = any_field(f);
    const int64_t before = read_field(launch, field);
    const int64_t after = fuzz_any(2) ? wrapping_sum(before, fuzz_any(2) ? 1 : -1) : edge_value();
    for (int i = 0; i < f->n_fields; i++) {
        const int64_t value = read_field(launch, i);
        if (f->is_float[i] || f->choices[i] > 0)
            continue;
        if (value == before)
            write_field(launch, i, after);
        else if (before > 1 && value > before && value % before == 0 && fuzz_any(2))
            write_field(launch, i, wrapping_product(value / before, after));
    }
}

static void swap_fields(struct fuzz_launch *launch, const struct fuzz_family *f)
{
    const int a = any_field(f), b = fuzz_any(2) ? any_field(f) : (a + 1) % f->n_fields;
    if (f->is_float[a] != f->is_float[b] || f->choices[a] != f->choices[b])
        return;
    const int64_t value = read_field(launch, a);
    write_field(launch, a, read_field(launch, b));
    write_field(launch, b, value);
}

static void take_fields(struct fuzz_launch *launch, const struct fuzz_family *f,
                        const struct fuzz_launch *other)
{
    const int first = any_field(f), n = 1 + (int)fuzz_any((uint64_t)(f->n_fields - first));
    memcpy(launch->task.params + 8 * first, other->task.params + 8 * first, (size_t)n * 8);
}

static int operands(const struct atc_task *task)
{
    return task->n_src + task->n_dst;
}

/* A type for one operand, or for all of one type, with the arguments that say its number or size.
 */
static void change_type(struct fuzz_launch *launch, const struct fuzz_family *f)
{
    struct atc_task *task = &launch->task;
    if (operands(task) == 0)
        return;
    struct atc_slot *slot = task->slots + fuzz_any((uint64_t)operands(task));
    const uint8_t before = slot->dtype, after = (uint8_t)(1 + fuzz_any(DTYPE_I2));
    if (slot->region == REGION_NONE)
        return;
    if (fuzz_any(3) == 0) {
        slot->dtype = after;
        return;
    }
    for (int i = 0; i < operands(task); i++)
        if (task->slots[i].region != REGION_NONE && task->slots[i].dtype == before)
            task->slots[i].dtype = after;
    for (int i = 0; i < f->n_fields; i++) {
        if (f->is_float[i] || f->choices[i] > 0)
            continue;
        if (read_field(launch, i) == before)
            write_field(launch, i, after);
        else if (read_field(launch, i) == atc_item_bytes(before) && fuzz_any(2))
            write_field(launch, i, atc_item_bytes(after));
    }
}

/* Leaves a source out, or puts one where there is none. */
static void change_presence(struct atc_task *task)
{
    if (task->n_src == 0)
        return;
    struct atc_slot *slot = task->slots + fuzz_any(task->n_src);
    if (slot->region != REGION_NONE)
        *slot = (struct atc_slot){0};
    else
        *slot = (struct atc_slot){.region = REGION_ARENA,
                                  .dtype = task->slots[fuzz_any((uint64_t)operands(task))].dtype};
}

/* One operand more or less at the end of the sources, or of the destinations. */
static void change_count(struct atc_task *task, bool is_dst, bool grows)
{
    uint8_t *count = is_dst ? &task->n_dst : &task->n_src;
    const int at = is_dst ? operands(task) : task->n_src;
    if (grows ? operands(task) == ATC_MAX_SLOTS : *count == 0)
        return;
    const size_t behind = (size_t)(operands(task) - at) * sizeof(struct atc_slot);
    if (grows) {
        memmove(task->slots + at + 1, task->slots + at, behind);
        task->slots[at] = at > 0 ? task->slots[at - 1]
                                 : (struct atc_slot){.region = REGION_ARENA, .dtype = DTYPE_F32};
        *count += 1;
    } else {
        memmove(task->slots + at - 1, task->slots + at, behind);
        *count -= 1;
        task->slots[operands(task)] = (struct atc_slot){0};
    }
}

static void change_constants(struct fuzz_launch *launch)
{
    const size_t at = fuzz_any(FUZZ_CONSTANTS / 4) * 4;
    const int32_t value = fuzz_any(4) ? (int32_t)fuzz_any(8) : (int32_t)edge_value();
    memcpy(launch->constants + at, &value, sizeof value);
}

static bool has_constants(const struct atc_task *task)
{
    for (int i = 0; i < task->n_src; i++)
        if (task->slots[i].region == REGION_WEIGHTS)
            return true;
    return false;
}

/* Keeps operands that are constants inside them. */
static void bound_constants(struct atc_task *task)
{
    for (int i = 0; i < operands(task); i++) {
        struct atc_slot *slot = task->slots + i;
        if (slot->region != REGION_WEIGHTS)
            continue;
        if (i >= task->n_src)
            *slot = (struct atc_slot){.region = REGION_ARENA, .dtype = slot->dtype};
        slot->offset = slot->offset % FUZZ_CONSTANTS & ~UINT64_C(15);
        if (slot->bytes > FUZZ_CONSTANTS - slot->offset)
            slot->bytes = FUZZ_CONSTANTS - slot->offset;
    }
}

/* The first destination takes the memory of a source, or one of its own. */
static void change_memory(struct atc_task *task)
{
    if (task->n_src == 0 || task->n_dst == 0)
        return;
    struct atc_slot *dst = task->slots + task->n_src;
    const struct atc_slot *src = task->slots + fuzz_any(task->n_src);
    if (src->region == REGION_ARENA && !atc_same_memory(dst, src))
        dst->offset = src->offset;
    else
        dst->offset = (uint64_t)task->n_src * OPERAND_STEP;
}

void fuzz_change(struct fuzz_launch *launch, const struct fuzz_family *f,
                 const struct fuzz_launch *other)
{
    if (has_constants(&launch->task) && fuzz_any(3) == 0) {
        change_constants(launch);
        return;
    }
    const uint64_t kind = fuzz_any(16);
    if (kind < 12 && f->n_fields > 0) {
        if (kind < 6)
            change_field(launch, f);
        else if (kind < 9)
            change_equal_fields(launch, f);
        else if (kind == 9)
            swap_fields(launch, f);
        else
            take_fields(launch, f, other);
        return;
    }
    if (kind == 13)
        change_presence(&launch->task);
    else if (kind == 14 && fuzz_any(2))
        change_count(&launch->task, fuzz_any(2), fuzz_any(2));
    else if (kind == 15)
        change_memory(&launch->task);
    else
        change_type(launch, f);
    bound_constants(&launch->task);
    fuzz_spread_operands(&launch->task);
}

/* --- variants -------------------------------------------------------------------------------- */

/* Types go to all operands of the first one's, or to the first source and the first destination. */
enum { TYPE_WAYS = 2, TYPES = TYPE_WAYS * DTYPE_I2 };
enum { OPERAND_WAYS = 3, COUNT_WAYS = 4 };

static const int64_t field_values[] = {
    -1, 0, 1, 2, 3, INT32_MAX, ATC_TOO_BIG / 2, ATC_TOO_BIG, INT64_MAX, INT64_MIN};
enum { FIELD_VALUES = sizeof field_values / sizeof field_values[0] };

static int type_variants(const struct fuzz_family *f)
{
    int choices = 1;
    for (int i = 0; i < f->n_fields; i++)
        choices += f->choices[i];
    return TYPES * choices;
}

static void vary_type(struct fuzz_launch *launch, const struct fuzz_family *f, int number)
{
    struct atc_task *task = &launch->task;
    const uint8_t before = task->slots[0].dtype,
                  after = (uint8_t)(1 + number / TYPE_WAYS % DTYPE_I2);
    for (int i = 0; i < operands(task); i++)
        if (task->slots[i].region != REGION_NONE && task->slots[i].dtype == before &&
            (number % TYPE_WAYS == 0 || i == 0 || i == task->n_src))
            task->slots[i].dtype = after;
    int choice = number / TYPES;
    for (int i = 0; i < f->n_fields; choice -= f->choices[i++]) {
        if (choice >= 0 && choice < f->choices[i])
            write_field(launch, i, choice);
        else if (strcmp(f->names[i], "dtype") == 0)
            write_field(launch, i, after);
        else if (strcmp(f->names[i], "item") == 0)
            write_field(launch, i, atc_item_bytes(after));
    }
}

static void vary_field(struct fuzz_launch *launch, const struct fuzz_family *f, int number)
{
    static const double reals[] = {-1, 0, INFINITY, NAN};
    const int field = number / FIELD_VALUES, which = number % FIELD_VALUES;
    if (!f->is_float[field])
        write_field(launch, field, field_values[which]);
    else
        memcpy(launch->task.params + 8 * field, reals + which % 4, sizeof reals[0]);
}

/* An operand is left out, empty or of another type. */
static void vary_operand(struct atc_task *task, int number)
{
    struct atc_slot *slot = task->slots + number / OPERAND_WAYS;
    if (slot->region == REGION_NONE)
        return;
    if (number % OPERAND_WAYS == 0)
        *slot = (struct atc_slot){0};
    else if (number % OPERAND_WAYS == 1)
        slot->bytes = 0;
    else
        slot->dtype = slot->dtype == DTYPE_F64 ? DTYPE_I32 : DTYPE_F64;
}

int fuzz_variants(const struct fuzz_family *f)
{
    return type_variants(f) + f->n_fields * FIELD_VALUES + OPERAND_WAYS * ATC_MAX_SLOTS +
           COUNT_WAYS;
}

struct fuzz_launch fuzz_variant(const struct fuzz_launch *seed, const struct fuzz_family *f,
                                int number)
{
    struct fuzz_launch launch = *seed;
    const int types = type_variants(f), fields = f->n_fields * FIELD_VALUES;
    if (number < types) {
        vary_type(&launch, f, number);
    } else if (number < types + fields) {
        vary_field(&launch, f, number - types);
    } else if (number < types + fields + OPERAND_WAYS * ATC_MAX_SLOTS) {
        vary_operand(&launch.task, number - types - fields);
    } else {
        change_count(&launch.task, number % 2, number / 2 % 2);
        fuzz_spread_operands(&launch.task);
    }
    return launch;
}
