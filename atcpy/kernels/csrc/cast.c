/* The cast family: its checker and how its work is dealt. */
#include "cast.h"

static const char *const cast_types[] = {"f32", "f64", "f16", "bf16", "i8",  "i16",  "i32",
                                         "i64", "u8",  "u16", "u32",  "u64", "bool", NULL};
static const enum atc_dtype dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16, DTYPE_I8,
                                        DTYPE_I16, DTYPE_I32, DTYPE_I64, DTYPE_U8,   DTYPE_U16,
                                        DTYPE_U32, DTYPE_U64, DTYPE_BOOL};

static_assert(sizeof dtypes / sizeof dtypes[0] == CAST_BOOL + 1, "a type each");

DESCRIBE_PARAMS(cast, CAST_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct cast_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!atc_sizes_ok(&p->n, 1, 0))
        return "a size is out of range";
    const enum atc_dtype from = dtypes[p->from], to = dtypes[p->to];
    if (!atc_holds(task->src, from, p->n, atc_item_bytes((int)from)) ||
        !atc_holds(task->dst, to, p->n, atc_item_bytes((int)to)))
        return "an operand is too small or of another type";
    return NULL;
}

static int64_t items(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct cast_params *p = params;
    return (p->n + CAST_CHUNK - 1) / CAST_CHUNK;
}

static int64_t work(const void *params)
{
    const struct cast_params *p = params;
    return p->n / 2;
}

const struct kernel_family family_cast = {
    .name = "cast",
    .fields = cast_fields,
    .check = check,
    .items = items,
    .work = work,
};
