/* The pow family: its checker and how its work is dealt. */
#include "elementwise/pow.h"

static const char *const pow_types[] = {"f32", "f64", "i32", "i64", "i8", "i16",
                                        "u8",  "u16", "u32", "u64", NULL};
static const enum atc_dtype dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_I32, DTYPE_I64, DTYPE_I8,
                                        DTYPE_I16, DTYPE_U8,  DTYPE_U16, DTYPE_U32, DTYPE_U64};

static_assert(sizeof dtypes / sizeof dtypes[0] == POW_U64 + 1, "a type each");

int64_t pow_type_of(int dtype)
{
    for (int64_t type = 0; type <= POW_U64; type++)
        if ((int)dtypes[type] == dtype)
            return type;
    return -1;
}

static const char *check(const struct task_view *task)
{
    const struct pow_params *p = task->params;
    if (task->n_src != 2 || task->n_dst != 1)
        return "wrong number of operands";
    const struct broadcast b = pow_walk(p);
    const char *reason = broadcast_check(task, &b);
    if (reason != NULL)
        return reason;
    if (p->base > POW_LAST_BASE)
        return "no base of this type";
    const enum atc_dtype base = dtypes[p->base], exponent = dtypes[p->exponent];
    const int64_t item = atc_item_bytes((int)base);
    if (!atc_holds(task, task->src, base, broadcast_reach(&b, 0), item) ||
        !atc_holds(task, task->src + 1, exponent, broadcast_reach(&b, 1),
                   atc_item_bytes((int)exponent)) ||
        !atc_holds(task, task->dst, base, broadcast_elements(&b), item))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct broadcast b = pow_walk(params);
    enum { ELEMENT_WORK = 8 }; /* of a logarithm and an exponential in double */
    return (struct kernel_cost){.items = broadcast_items(&b),
                                .work = atc_mul(broadcast_elements(&b), ELEMENT_WORK)};
}

DEFINE_FAMILY(pow, POW_FIELDS, .check = check, .cost = cost, .inplace = 1);

bool pow_is_of_f32(const struct task_view *task)
{
    const struct pow_params *p = task->params;
    return p->base == POW_F32 && p->exponent == POW_F32;
}
