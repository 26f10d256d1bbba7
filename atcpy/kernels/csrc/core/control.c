/* The families of control flow; the executor runs them, plan.c checks how their tasks nest. */
#include "core/control.h"

static bool is_count(int64_t tasks)
{
    return tasks >= 0 && tasks < INT32_MAX;
}

static const char *check_if(const struct task_view *task)
{
    const struct if_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 0)
        return "wrong number of operands";
    if (!is_count(p->then_tasks) || !is_count(p->else_tasks))
        return "a number of tasks is out of range";
    return atc_holds(task, task->src, DTYPE_BOOL, 1, 1) ? NULL : "the condition is no bool";
}

static const char *check_loop(const struct task_view *task)
{
    const struct loop_params *p = task->params;
    if (task->n_src != 2 || task->n_dst != 1)
        return "wrong number of operands";
    if (!is_count(p->body_tasks))
        return "a number of tasks is out of range";
    if (p->trip_count < -1 || p->trip_count >= ATC_TOO_BIG)
        return "the trip count is out of range";
    if (!atc_holds_optional(task, 0, DTYPE_I64, 1, 8))
        return "the trip count is no int64";
    if (!atc_holds_optional(task, 1, DTYPE_BOOL, 1, 1))
        return "the condition is no bool";
    return atc_holds(task, task->dst, DTYPE_I64, 1, 8) ? NULL : "the counter is no int64";
}

static const char *check_stream_active(const struct task_view *task)
{
    const struct stream_active_params *p = task->params;
    if (task->n_src != 0 || task->n_dst != 0)
        return "wrong number of operands";
    return is_count(p->body_tasks) ? NULL : "a number of tasks is out of range";
}

/* The tasks that they run count their own. */
static struct kernel_cost no_cost(const void *params, const struct atc_cpu *cpu)
{
    (void)params;
    (void)cpu;
    return (struct kernel_cost){0};
}

DEFINE_FAMILY(if, IF_FIELDS, .check = check_if, .cost = no_cost, .control = CONTROL_IF);
DEFINE_FAMILY(loop, LOOP_FIELDS, .check = check_loop, .cost = no_cost, .control = CONTROL_LOOP);
DEFINE_FAMILY(stream_active, STREAM_ACTIVE_FIELDS, .check = check_stream_active, .cost = no_cost,
              .control = CONTROL_STREAMS);

/* What a family needs a row for; nothing calls it. */
void control_if(const struct kernel_args *args)
{
    (void)args;
}

void control_loop(const struct kernel_args *args)
{
    (void)args;
}

void control_stream_active(const struct kernel_args *args)
{
    (void)args;
}
