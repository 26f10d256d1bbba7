/* The cast family: its checker and how its work is dealt. */
#include "elementwise/cast.h"

static const char *const cast_types[] = {
    "f32",        "f64",    "f16",    "bf16", "i8",   "i16",      "i32",        "i64",
    "u8",         "u16",    "u32",    "u64",  "bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2",
    "f8e5m2fnuz", "f4e2m1", "f8e8m0", "i4",   "u4",   "i2",       "u2",         NULL};
static const enum atc_dtype dtypes[] = {
    DTYPE_F32,    DTYPE_F64,      DTYPE_F16,        DTYPE_BF16,   DTYPE_I8,         DTYPE_I16,
    DTYPE_I32,    DTYPE_I64,      DTYPE_U8,         DTYPE_U16,    DTYPE_U32,        DTYPE_U64,
    DTYPE_BOOL,   DTYPE_F8E4M3FN, DTYPE_F8E4M3FNUZ, DTYPE_F8E5M2, DTYPE_F8E5M2FNUZ, DTYPE_F4E2M1,
    DTYPE_F8E8M0, DTYPE_I4,       DTYPE_U4,         DTYPE_I2,     DTYPE_U2};
const char *const cast_rounds[] = {"up", "down", "nearest", NULL};

static_assert(sizeof dtypes / sizeof dtypes[0] == CAST_TYPES, "a type each");

int64_t cast_type_of(int dtype)
{
    for (int64_t type = 0; type < CAST_TYPES; type++)
        if ((int)dtypes[type] == dtype)
            return type;
    return -1;
}

static int64_t bits_of(int64_t type)
{
    if (type == CAST_F4E2M1 || type == CAST_I4 || type == CAST_U4)
        return 4;
    return type == CAST_I2 || type == CAST_U2 ? 2 : 8 * atc_item_bytes((int)dtypes[type]);
}

/* Room for n elements, of which some types share bytes. */
static bool holds(const struct task_view *task, const struct atc_slot *slot, int64_t type,
                  int64_t n)
{
    return atc_holds(task, slot, dtypes[type], ceil_div(n * bits_of(type), 8), 1);
}

static const char *check(const struct task_view *task)
{
    const struct cast_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n))
        return "a size is out of range";
    if (!holds(task, task->src, p->from, p->n) || !holds(task, task->dst, p->to, p->n))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct cast_params *p = params;
    return (struct kernel_cost){.items = (p->n + CAST_CHUNK - 1) / CAST_CHUNK, .work = p->n / 2};
}

DEFINE_FAMILY(cast, CAST_FIELDS, .check = check, .cost = cost);
