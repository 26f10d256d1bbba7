/* matmul by its definition: the oracle of the other rows, and the path of any other CPU. Integers
 * wrap around.
 */
#include "core/pieces.h"
#include "matmul/matmul.h"

/* Element (k, j) of b, from the start of its matrix. */
static inline int64_t b_index(const struct matmul_params *p, int64_t k, int64_t j)
{
    if (p->b_packed == 0)
        return k * p->b_row + j * p->b_col;
    const int64_t rows = ceil_div(p->k, MATMUL_PANEL) * MATMUL_PANEL;
    const int64_t panel = j / MATMUL_PANEL * rows * MATMUL_PANEL, column = j % MATMUL_PANEL;
    if (p->weights == WEIGHTS_BF16_VNNI2)
        return panel + k / 2 * 2 * MATMUL_PANEL + 2 * column + k % 2;
    return panel + k * MATMUL_PANEL + column;
}

/* `type` does the arithmetic; READ_A and READ_B read factors, SCALE applies scales, FINISH the
 * activation. */
#define DEFINE(symbol, type, READ_A, READ_B, SCALE, FINISH) \
    static void symbol##_item(struct atc_meter *meter, const struct matmul_item *it)               \
    {                                                                                              \
        const struct kernel_args *args = meter->args;                                              \
        const struct matmul_params *p = args->params;                                              \
        const type *a = (const type *)args->src[MATMUL_A] + it->a;                                 \
        const type *b = args->src[MATMUL_B]; \
        const type *bias = args->src[MATMUL_BIAS], *residual = args->src[MATMUL_RESIDUAL];         \
        for (int64_t i = it->row; i < it->row + it->rows; i++) {                                   \
            for (int64_t j = it->column; j < it->column + it->columns; j++) {                      \
                const int64_t at = it->y + i * p->y_row + j;                                       \
                type sum = 0;                                                                      \
                if (atc_spend(meter, p->k + 1))                                                      \
                    return;                                                                        \
                for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->k);)            \
                    for (int64_t k = piece.begin; k < piece.end; k++)                              \
                        sum +=                                                                     \
                            READ_A(a, i * p->a_row + k * p->a_col) *                               \
                            READ_B(b, it->b + b_index(p, k, j));                                   \
                if (residual != NULL)                                                              \
                    sum += residual[at];                                                           \
                sum = SCALE(sum, p->scale);                                                        \
                if (bias != NULL)                                                                  \
                    sum += SCALE(bias[i * p->bias_row + j * p->bias_col], p->bias_scale);          \
                ((type *)args->dst[0])[at] = FINISH(sum);                                          \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        struct atc_meter meter = {.args = args};                                                   \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const struct matmul_item it = matmul_find_item(args->params, args->cpu, item);         \
            symbol##_item(&meter, &it);                                                              \
        }                                                                                          \
    }

#define READ_FACTOR(a, at) (p->weights == WEIGHTS_BF16_VNNI2 ? rounded_bf16((a)[at]) : (a)[at])
#define READ_WEIGHT(b, at) weight_at(p->weights, b, at)
#define READ_SAME(b, at) (b)[at]
#define SCALE_F32(x, scale) ((x) * (float)(scale))
#define SCALE_F64(x, scale) ((x) * (scale))
#define SCALE_NONE(x, scale) (x)
#define FINISH_F32(x)                                                                              \
    activate_f32((enum activation)p->activation, x, (float)p->alpha, (float)p->beta)
#define FINISH_NONE(x) (x)

DEFINE(matmul_f32_scalar, float, READ_FACTOR, READ_WEIGHT, SCALE_F32, FINISH_F32)
DEFINE(matmul_f64_scalar, double, READ_SAME, READ_SAME, SCALE_F64, FINISH_NONE)
DEFINE(matmul_i32_scalar, uint32_t, READ_SAME, READ_SAME, SCALE_NONE, FINISH_NONE)
DEFINE(matmul_i64_scalar, uint64_t, READ_SAME, READ_SAME, SCALE_NONE, FINISH_NONE)
