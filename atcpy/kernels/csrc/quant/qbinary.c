/* The qbinary family: its checker and how its work is dealt. */
#include "quant/qbinary.h"

static const char *const qbinary_names[] = {"Add", "Mul", NULL};

static enum atc_dtype byte_type(int64_t is_signed)
{
    return is_signed == 1 ? DTYPE_I8 : DTYPE_U8;
}

/* True if the scale that is source `scale`, and the zero point behind it, can be read. */
static bool has_steps(const struct task_view *task, int scale, int64_t is_signed)
{
    return atc_holds(task, task->src + scale, DTYPE_F32, 1, 4) &&
           atc_holds_optional(task, scale + 1, byte_type(is_signed), 1, 1);
}

static const char *check(const struct task_view *task)
{
    const struct qbinary_params *p = task->params;
    if (task->n_src != QBINARY_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    const struct broadcast b = qbinary_walk(p);
    const char *reason = broadcast_check(task, &b);
    if (reason != NULL)
        return reason;
    const int64_t signs[] = {p->a_signed, p->b_signed, p->y_signed};
    for (int i = 0; i < 3; i++)
        if (signs[i] < 0 || signs[i] > 1)
            return "a sign is neither 0 nor 1";
    const struct atc_slot *src = task->src;
    if (!atc_holds(task, src + QBINARY_A, byte_type(p->a_signed), broadcast_reach(&b, 0), 1) ||
        !atc_holds(task, src + QBINARY_B, byte_type(p->b_signed), broadcast_reach(&b, 1), 1) ||
        !atc_holds(task, task->dst, byte_type(p->y_signed), broadcast_elements(&b), 1))
        return "an operand is too small or of another type";
    if (!has_steps(task, QBINARY_A_SCALE, p->a_signed) ||
        !has_steps(task, QBINARY_B_SCALE, p->b_signed) ||
        !has_steps(task, QBINARY_Y_SCALE, p->y_signed))
        return "a scale or zero point is missing or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct broadcast b = qbinary_walk(params);
    return (struct kernel_cost){.items = broadcast_items(&b), .work = broadcast_elements(&b)};
}

DEFINE_FAMILY(qbinary, QBINARY_FIELDS, .check = check, .cost = cost);
