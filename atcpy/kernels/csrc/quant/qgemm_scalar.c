/* qgemm, plainly: the definition of what every ISA computes. */
#include "quant/qgemm_finish.h"

static void micro(const struct qgemm_tile *t)
{
    const uint8_t flip = (uint8_t)t->flip;
    int32_t sums[QGEMM_PANEL] = {0};
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++)
            for (int j = 0; j < QGEMM_PANEL; j++)
                for (int i = 0; i < QGEMM_K0; i++) {
                    const int8_t w = (int8_t)(t->w[k * QGEMM_BLOCK + j * QGEMM_K0 + i] ^ flip);
                    sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)(t->x[k * QGEMM_K0 + i] * w));
                }
    qgemm_finish(t, sums, 0, 0, 1);
}

static int32_t sum(const uint8_t *row, int64_t n)
{
    uint32_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += row[i];
    return (int32_t)total;
}

void qgemm_any_scalar(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {micro};
    qgemm_drive(args, &(struct qgemm_isa){1, 1, table, sum});
}
