/* random: n numbers that are drawn.
 *
 *     uniform   a + (b − a) · u, with u in [0, 1)
 *     normal    of mean a and standard deviation b, by Box and Muller's method
 *
 * Elements 2i and 2i + 1 come from block i of the generator. With `seeded`, the draws follow from
 * the seed; without, each launch has others.
 */
#include "random/philox.h"

#include <math.h>

static const char *const random_kinds[] = {"uniform", "normal", NULL};
enum { RANDOM_UNIFORM, RANDOM_NORMAL };

#define RANDOM_FIELDS(I64, I64S, F64, ENUM)                                                        \
    I64(n) ENUM(kind, random_kinds) F64(a) F64(b) I64(seeded) I64(seed)
DECLARE_PARAMS(random, RANDOM_FIELDS)

enum { PAIRS = 512 }; /* of an item */

static const char *check(const struct task_view *task)
{
    const struct random_params *p = task->params;
    if (task->n_src != 0 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n))
        return "a size is out of range";
    if (p->seeded != 0 && p->seeded != 1)
        return "seeded is neither 0 nor 1";
    const int dtype = task->dst->dtype;
    if ((dtype != DTYPE_F32 && dtype != DTYPE_F64) ||
        !atc_holds(task, task->dst, DTYPE_ANY, p->n, atc_item_bytes(dtype)))
        return "the result is too small or of a wrong type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct random_params *p = params;
    return (struct kernel_cost){.items = ceil_div(p->n, 2 * PAIRS), .work = atc_mul(p->n, 32)};
}

DEFINE_FAMILY(random, RANDOM_FIELDS, .check = check, .cost = cost, .draws = true);

static void draw_pair(const struct random_params *p, uint64_t key, int64_t pair, double step,
                      double y[2])
{
    double u[2];
    philox_uniform(key, (uint64_t)pair, u);
    if (p->kind == RANDOM_UNIFORM) {
        /* Whole steps: a number just below 1 must not become 1 in the type of the result. */
        y[0] = p->a + (p->b - p->a) * (floor(u[0] / step) * step);
        y[1] = p->a + (p->b - p->a) * (floor(u[1] / step) * step);
    } else {
        const double radius = sqrt(-2 * log(1 - u[0])), angle = 2 * 3.14159265358979323846 * u[1];
        y[0] = p->a + p->b * (radius * cos(angle));
        y[1] = p->a + p->b * (radius * sin(angle));
    }
}

#define DEFINE_RANDOM(T, symbol, step)                                                             \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct random_params *p = args->params;                                              \
        const uint64_t key = philox_key(args, p->seeded, p->seed);                                 \
        const int64_t end = min_i64(args->end * 2 * PAIRS, p->n);                                  \
        for (int64_t i = args->begin * 2 * PAIRS; i < end; i += 2) {                               \
            double y[2];                                                                           \
            draw_pair(p, key, i / 2, step, y);                                                     \
            T *dst = (T *)args->dst[0] + i;                                                        \
            dst[0] = (T)y[0];                                                                      \
            if (i + 1 < end)                                                                       \
                dst[1] = (T)y[1];                                                                  \
        }                                                                                          \
    }

DEFINE_RANDOM(float, random_f32_scalar, 0x1p-24)
DEFINE_RANDOM(double, random_f64_scalar, 0x1p-53)
