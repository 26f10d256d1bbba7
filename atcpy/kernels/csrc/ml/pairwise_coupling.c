/* pairwise_coupling: the probability of each class from those of each pair of classes.
 *
 *     r  [rows, classes · (classes − 1) / 2], float: that it is i, if it is i or j, for each i < j
 *     p  [rows, classes], float
 *
 * The second method of Wu, Lin and Weng, "Probability estimates for multi-class classification by
 * pairwise coupling" (2004), as libsvm iterates it: at most ROUNDS times.
 */
#include "core/pieces.h"

#include <math.h>

#define COUPLING_FIELDS(I64, I64S, F64, ENUM) I64(rows) I64(classes)
DECLARE_PARAMS(pairwise_coupling, COUPLING_FIELDS)

enum { ROUNDS = 100, MAX_CLASSES = 1 << 15 };

static int64_t pairs_of(int64_t classes)
{
    return classes * (classes - 1) / 2;
}

static const char *check(const struct task_view *task)
{
    const struct pairwise_coupling_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->rows) || p->classes < 2 || p->classes > MAX_CLASSES)
        return "a size is out of range";
    if (!atc_holds(task, task->src, DTYPE_F32, atc_mul(p->rows, pairs_of(p->classes)), 4) ||
        !atc_holds(task, task->dst, DTYPE_F32, atc_mul(p->rows, p->classes), 4))
        return "an operand is too small or of a wrong type";
    return NULL;
}

/* The scratch holds Q and Q·p. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct pairwise_coupling_params *p = params;
    const int64_t cells = p->classes * (p->classes + 1);
    return (struct kernel_cost){.items = p->rows,
                                .work = atc_mul(p->rows, cells * ROUNDS),
                                .scratch = cells * (int64_t)sizeof(float)};
}

DEFINE_FAMILY(pairwise_coupling, COUPLING_FIELDS, .check = check, .cost = cost);

/* Q of the quadratic form that the probabilities minimise: Σ (r_ji·p_i − r_ij·p_j)². */
static void set_up(struct atc_meter *meter, const float *r, int64_t n, float *q, float *p)
{
    for (int64_t i = 0; i < n; i++) {
        q[i * n + i] = 0;
        p[i] = 1.0f / (float)n;
    }
    for (int64_t i = 0; i < n && !atc_spend(meter, n); i++)
        for (int64_t j = i + 1; j < n; j++) {
            const float r_ij = *r++, r_ji = 1 - r_ij;
            q[i * n + i] += r_ji * r_ji;
            q[j * n + j] += r_ij * r_ij;
            q[i * n + j] = q[j * n + i] = -r_ji * r_ij;
        }
}

static void couple(struct atc_meter *meter, const float *r, int64_t n, float *q, float *qp,
                   float *p)
{
    const float enough = 0.005f / (float)n;
    set_up(meter, r, n, q, p);
    for (int round = 0; round < ROUNDS; round++) {
        float pqp = 0, worst = 0;
        for (int64_t i = 0; i < n && !atc_spend(meter, n); i++) {
            qp[i] = 0;
            for (int64_t j = 0; j < n; j++)
                qp[i] += q[i * n + j] * p[j];
            pqp += p[i] * qp[i];
        }
        for (int64_t i = 0; i < n; i++)
            worst = fmaxf(worst, fabsf(qp[i] - pqp));
        if (worst < enough)
            return;
        for (int64_t i = 0; i < n; i++) {
            if (atc_spend(meter, n))
                return;
            const float change = (pqp - qp[i]) / q[i * n + i], total = 1 + change;
            p[i] += change;
            pqp = (pqp + change * (change * q[i * n + i] + 2 * qp[i])) / total / total;
            for (int64_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + change * q[i * n + j]) / total;
                p[j] /= total;
            }
        }
    }
}

void pairwise_coupling_f32_scalar(const struct kernel_args *args)
{
    const struct pairwise_coupling_params *p = args->params;
    const int64_t n = p->classes;
    float *q = args->scratch, *qp = q + n * n;
    struct atc_meter meter = {.args = args};
    for (int64_t row = args->begin; row < args->end; row++)
        couple(&meter, (const float *)args->src[0] + row * pairs_of(n), n, q, qp,
               (float *)args->dst[0] + row * n);
}
