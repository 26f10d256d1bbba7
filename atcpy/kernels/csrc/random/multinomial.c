/* multinomial: classes that are drawn by their unnormalised log-probabilities.
 *
 *     x  [rows, classes], float or double
 *     y  [rows, samples], int32 or int64 if `wide`
 *
 * Sample s of a row takes the first class whose cumulated weight is above u times their sum. Draws
 * depend on the seed as in random.c.
 */
#include "core/pieces.h"
#include "random/philox.h"

#include <math.h>

#define MULTINOMIAL_FIELDS(I64, I64S, F64, ENUM)                                                   \
    I64(rows) I64(classes) I64(samples) I64(wide) I64(seeded) I64(seed)
DECLARE_PARAMS(multinomial, MULTINOMIAL_FIELDS)

static const char *check(const struct task_view *task)
{
    const struct multinomial_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->rows, p->samples) || !ATC_SIZES_OK(1, p->classes) ||
        p->classes > INT32_MAX)
        return "a size is out of range";
    if (p->wide < 0 || p->wide > 1 || p->seeded < 0 || p->seeded > 1)
        return "wide or seeded is neither 0 nor 1";
    const int dtype = task->src->dtype;
    if ((dtype != DTYPE_F32 && dtype != DTYPE_F64) ||
        !atc_holds(task, task->src, DTYPE_ANY, atc_mul(p->rows, p->classes),
                   atc_item_bytes(dtype)) ||
        !atc_holds(task, task->dst, p->wide ? DTYPE_I64 : DTYPE_I32, atc_mul(p->rows, p->samples),
                   p->wide ? 8 : 4))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* The scratch holds the cumulated weights of a row. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct multinomial_params *p = params;
    const int64_t row = atc_add(atc_mul(p->classes, 16), atc_mul(p->samples, 48));
    return (struct kernel_cost){.items = p->samples == 0 ? 0 : p->rows,
                                .work = atc_mul(p->rows, row),
                                .scratch = atc_mul(p->classes, sizeof(double))};
}

DEFINE_FAMILY(multinomial, MULTINOMIAL_FIELDS, .check = check, .cost = cost, .draws = true);

/* The first of n cumulated weights above a limit; the last one if none is, NaN among them. */
static int64_t first_above(const double *cumulated, int64_t n, double limit)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (cumulated[middle] > limit)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

#define DEFINE_MULTINOMIAL(T, symbol)                                                              \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct multinomial_params *p = args->params;                                         \
        const uint64_t key = philox_key(args, p->seeded, p->seed);                                 \
        double *cumulated = args->scratch;                                                         \
        struct atc_meter meter = {.args = args};                                                   \
        for (int64_t row = args->begin; row < args->end; row++) {                                  \
            const T *x = (const T *)args->src[0] + row * p->classes;                               \
            double highest = -INFINITY, total = 0;                                                 \
            for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->classes);)          \
                for (int64_t c = piece.begin; c < piece.end; c++)                                  \
                    highest = (double)x[c] > highest ? (double)x[c] : highest;                     \
            for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->classes);)          \
                for (int64_t c = piece.begin; c < piece.end; c++)                                  \
                    cumulated[c] = total += exp((double)x[c] - highest);                           \
            for (int64_t s = 0; s < p->samples && !atc_spend(&meter, 32); s++) {                   \
                const int64_t i = row * p->samples + s;                                            \
                double u[2];                                                                       \
                philox_uniform(key, (uint64_t)i / 2, u);                                           \
                const int64_t drawn = first_above(cumulated, p->classes, u[i % 2] * total);        \
                if (p->wide)                                                                       \
                    ((int64_t *)args->dst[0])[i] = drawn;                                          \
                else                                                                               \
                    ((int32_t *)args->dst[0])[i] = (int32_t)drawn;                                 \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_MULTINOMIAL(float, multinomial_f32_scalar)
DEFINE_MULTINOMIAL(double, multinomial_f64_scalar)
