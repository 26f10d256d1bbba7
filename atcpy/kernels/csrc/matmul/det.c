/* det: determinants of square matrices, the product of the pivots of an elimination by rows.
 *
 *     x  [count, n, n]  float or double
 *     y  [count]
 *
 * The elimination itself is in doubles, on a copy in scratch.
 */
#include "core/kernel.h"

#include <math.h>

#define DET_FIELDS(I64, I64S, F64, ENUM) I64(count) I64(n)
DECLARE_PARAMS(det, DET_FIELDS)

enum { MAX_SIDE = 128 };

static const char *check(const struct task_view *task)
{
    const struct det_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->count) || p->n < 1 || p->n > MAX_SIDE)
        return "a size is out of range";
    const enum atc_dtype dtype = (enum atc_dtype)task->src[0].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_F64)
        return "operands are of an unknown type";
    const int64_t item = atc_item_bytes(dtype);
    if (!atc_holds(task, task->src, dtype, atc_mul(p->count, p->n * p->n), item) ||
        !atc_holds(task, task->dst, dtype, p->count, item))
        return "an operand is too small or of another type";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct det_params *p = params;
    return (struct kernel_cost){.items = p->count,
                                .work = atc_mul(p->count, p->n * p->n * (p->n + 2) / 3 + 8),
                                .scratch = p->n * p->n * (int64_t)sizeof(double)};
}

DEFINE_FAMILY(det, DET_FIELDS, .check = check, .cost = cost);

/* The row from k on whose number in column k is largest, or not a number. */
static int64_t find_pivot(const double *a, int64_t n, int64_t k)
{
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; i++) {
        const double x = fabs(a[i * n + k]);
        if (x > fabs(a[pivot * n + k]) || isnan(x))
            pivot = i;
    }
    return pivot;
}

/* The determinant of a [n, n], which is overwritten. */
static double determinant(double *a, int64_t n)
{
    double product = 1;
    for (int64_t k = 0; k < n; k++) {
        const int64_t pivot = find_pivot(a, n, k);
        double *restrict top = a + k * n, *other = a + pivot * n;
        if (other[k] == 0)
            return 0;
        for (int64_t j = k; j < n && pivot != k; j++) {
            const double x = top[j];
            top[j] = other[j];
            other[j] = x;
        }
        product *= pivot == k ? top[k] : -top[k];
        for (int64_t i = k + 1; i < n; i++) {
            double *restrict row = a + i * n;
            const double factor = row[k] / top[k];
            for (int64_t j = k + 1; j < n; j++)
                row[j] -= factor * top[j];
        }
    }
    return product;
}

#define DEFINE_DET(T, suffix)                                                                      \
    void det_##suffix##_scalar(const struct kernel_args *args)                                     \
    {                                                                                              \
        const struct det_params *p = args->params;                                                 \
        const int64_t cells = p->n * p->n;                                                         \
        double *a = args->scratch;                                                                 \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const T *x = (const T *)args->src[0] + item * cells;                                   \
            for (int64_t i = 0; i < cells; i++)                                                    \
                a[i] = x[i];                                                                       \
            ((T *)args->dst[0])[item] = (T)determinant(a, p->n);                                   \
        }                                                                                          \
    }

DEFINE_DET(float, f32)
DEFINE_DET(double, f64)
